"""The coding of tables as a step of a scikit-learn pipeline: what `kosambi fit` does with a file, for a data frame."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kosambi.errors import DataWarning, InputError
from kosambi.tables._bad_rows import first_of
from kosambi.tables._date_notes import checked_formats, compact_notes, date_notes, layouts_of
from kosambi.tables._names import as_known, quoted
from kosambi.tables._pandas import pandas
from kosambi.tables._remarks import mixed_notes, units_of
from kosambi.tables._schema import Schema
from kosambi.tables._seasons import Dates
from kosambi.tables._typed import Kind, check_complete, typed, without_row_numbers

# Options of the command line in messages of the shared code, and how a Python user writes them.
_IN_PYTHON = (
    (re.compile(r"`--(drop|categorical) ([^`]+)`"), r"`\1=['\2']`"),
    (re.compile(r"`--(drop|categorical)`"), r"`\1=[...]`"),
    (re.compile(r"`--impute`"), "`impute=True`"),
    (re.compile(r"`--date-format ([^`=]+)=([^`]+)`"), r"`date_format={'\1': '\2'}`"),
    (re.compile(r"`--dates days`"), "`dates='days'`"),
)


class TableTransformer(TransformerMixin, BaseEstimator):
    """Columns of text, true and false, percent and currencies, dates, and missing values, coded as numbers.

    The coding is that of the command line (`Schema`): numbers stay as they are, Boolean values become 0 and 1, and text
    is one column of 0 and 1 for each level, or one for two levels. A date becomes a number of days, with the seasons
    that its times allow as points on circles: the time of day, the day of the week, the time of year. Columns with one
    value are left out. With `impute` a missing number becomes the median of the others, with a further column that says
    where, and a missing level is a level of its own. Everything is learned from the rows of `fit`.

    A pipeline predicts for every row, so that rows which cannot be coded, with a level that was not there in `fit` or a
    missing value, are refused as by `kosambi predict --on-bad-row error`; "skip" and "flag" have no counterpart. Ask
    `faults` which they are, and leave them out.

    Arguments:
        impute: whether to fill in missing inputs.
        categorical: names of columns that are categories although they look like numbers.
        drop: names of columns to leave out.
        dates: "calendar" for the seasons of dates too, "days" for the number alone.
        date_format: how dates of some columns are written that can be read in two ways, by name: "day-first",
            "month-first", "year-first", or a format of `strptime`, such as "%d.%m.%y".

    After `fit`: `schema_`, `notes_` (what was done; what is not plain is warned of too), `feature_names_in_`,
    `n_features_in_`.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [50.0, None, 80.0], "city": ["Bonn", "Ulm", "Bonn"]})
    >>> TableTransformer(impute=True).fit_transform(table)
       size  size (missing)  city=Ulm
    0  50.0             0.0       0.0
    1  65.0             1.0       1.0
    2  80.0             0.0       0.0
    """

    def __init__(
        self,
        *,
        impute: bool = False,
        categorical: Sequence[str] = (),
        drop: Sequence[str] = (),
        dates: Dates = "calendar",
        date_format: Mapping[str, str] | None = None,
    ) -> None:
        self.impute = impute
        self.categorical = categorical
        self.drop = drop
        self.dates = dates
        self.date_format = date_format

    def fit(self, X: Any, y: Any = None) -> TableTransformer:
        """Learn what the columns of a data frame are; `y` is not looked at.

        Raises:
            InputError: missing values without `impute`, dates that can be read in two ways, columns that look like
                identifiers, or none that varies.
        """
        del y
        raw = _as_table(X)
        names = [str(name) for name in raw.columns]
        for name in (*self.drop, *self.categorical):
            as_known(name, names)
        with _in_python():
            raw, notes = without_row_numbers(raw)
            inputs = tuple(name for name in raw if name not in self.drop)
            raw = raw[list(inputs)]
            given = checked_formats(self.date_format or {}, inputs)
            kinds: dict[str, Kind] = dict.fromkeys(self.categorical, "categorical")
            table = typed(raw, kinds | dict.fromkeys(given, "date"), given)
            notes = (*notes, *mixed_notes(raw, table, inputs, tuple(self.categorical)))
            notes = (*notes, *compact_notes(raw, table, inputs))
            if not self.impute:
                # Columns without any values are left out.
                check_complete(table.loc[:, table.notna().any()])
            schema = Schema.learn(
                table,
                target="",
                inputs=inputs,
                impute=self.impute,
                units=units_of(raw, table),
                layouts=layouts_of(raw, table, given),
                dates=self.dates,
            )
        read = date_notes(schema.columns, raw, given)
        self.schema_, self.notes_ = (
            schema,
            tuple(_in_words(n) for n in (*notes, *schema.notes, *(n.text for n in read))),
        )
        self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
        # Dates that can be read in one way only are no reason for a warning at every fit.
        plain = {_in_words(note.text) for note in read if not note.is_decided}
        if said := [note for note in self.notes_ if note not in plain]:
            warnings.warn(" ".join(said), DataWarning, stacklevel=2)
        return self

    def transform(self, X: Any) -> Any:
        """The rows as numbers: a data frame (n, D) whose columns have the labels of `get_feature_names_out`.

        Columns are found by name, so that their order does not matter and others may be there.

        Raises:
            InputError: a column is not there, is written in another unit, or has rows that cannot be coded.
        """
        check_is_fitted(self, "schema_")
        table = _as_table(X)
        with _in_python():
            self.schema_.check_units(table)
            try:
                matrix, labels = self.schema_.encode(table)
            except InputError as error:
                faults = self.schema_.faults(table)
                if not np.any(faults != ""):
                    raise
                raise InputError(
                    f"{error} {first_of(faults)}. `faults` says for each row whether and why, so that they can be left "
                    "out."
                ) from error
        return pandas().DataFrame(matrix, columns=list(labels), index=table.index)

    def faults(self, X: Any) -> np.ndarray:
        """(n,) texts: why `transform` refuses a row; empty for rows that it takes.

        >>> import pandas as pd
        >>> model = TableTransformer().fit(pd.DataFrame({"city": ["Bonn", "Ulm", "Bonn"]}))
        >>> model.faults(pd.DataFrame({"city": ["Ulm", "Trier", None]})).tolist()
        ['', '`city` is `Trier`, which was not there in training', '`city` is missing']
        """
        check_is_fitted(self, "schema_")
        return self.schema_.faults(_as_table(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """(D,): the labels of the columns of `transform`; `input_features` are those of `fit`, if given."""
        check_is_fitted(self, "schema_")
        if input_features is not None and list(input_features) != list(self.feature_names_in_):
            raise ValueError(
                f"`input_features` must be those of `fit`, {quoted(list(self.feature_names_in_))}. Leave it out."
            )
        return np.array(self.schema_.labels, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "schema_")


def _as_table(X: Any) -> Any:
    """A data frame whose column names are text."""
    pd = pandas()
    if not isinstance(X, pd.DataFrame):
        raise InputError(
            f"`TableTransformer` needs a pandas DataFrame, whose columns have names. Got {type(X).__name__}. Use "
            "`pandas.DataFrame(X, columns=[...])`."
        )
    if not len(X):
        raise InputError("`X` has no rows. Give one at least.")
    names = [str(name) for name in X.columns]
    if len(set(names)) != len(names):
        raise InputError(f"`X` has several columns of the same name: {quoted(names)}. Rename them.")
    return X if names == list(X.columns) else X.set_axis(names, axis=1)


@contextlib.contextmanager
def _in_python() -> Iterator[None]:
    """What the code that is shared with the command line says, with arguments in place of its options."""
    try:
        yield
    except InputError as error:
        text = _in_words(str(error))
        if text == str(error):
            raise
        raise InputError(text) from error


def _in_words(text: str) -> str:
    """A message with arguments in place of options."""
    for pattern, replacement in _IN_PYTHON:
        text = pattern.sub(replacement, text)
    return text
