"""One input column: what was learned about it, how it is coded, and how it is read from a file."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from kosambi._core.calendar import SEASONS, zone_of
from kosambi.errors import InputError
from kosambi.tables._dates import CLOCK
from kosambi.tables._formats import THOUSANDS
from kosambi.tables._layouts import LAYOUTS, check_format
from kosambi.tables._names import quoted
from kosambi.tables._remarks import mixed_note
from kosambi.tables._seasons import Calendar, Dates, calendar_of
from kosambi.tables._typed import KINDS, Kind, kind_of

MISSING = "(missing)"
"""The level that stands for a missing value."""
# More levels than this would make more columns than a kernel can use.
MAX_LEVELS = 100
# Of a format of `strptime`, or of the name of a zone; usual ones have ten to thirty characters.
_LONGEST = 100


@dataclasses.dataclass(frozen=True)
class Column:
    """One input column."""

    name: str
    """In the table."""
    kind: Kind
    """What it holds."""
    levels: tuple[str, ...] = ()
    """Of a boolean or categorical column, in order; `(missing)` is last, if values were missing."""
    fill: float | None = None
    """What stands for a missing number: the median of the others. None when imputation was not asked for."""
    has_indicator: bool = False
    """Whether a further column says where numbers were missing."""
    unit: str | None = None
    """How numbers were written in the training table: %, a currency's symbol, `1,234` for thousands, None for plain."""
    calendar: Calendar | None = None
    """Of dates and times of day: how they were written, and what becomes of them."""

    @property
    def is_measured(self) -> bool:
        """Whether a value is a number or a time, and not one of some levels."""
        return self.kind in ("numeric", "date", "time")

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the columns it is coded by."""
        if self.is_measured:
            own = (self.name,) if self.calendar is None else self.calendar.labels(self.name)
            return (*own, f"{self.name} {MISSING}") if self.has_indicator else own
        if self.kind == "boolean" and len(self.levels) == 2:
            return (self.name,)
        shown = self.levels[1:] if len(self.levels) == 2 else self.levels
        return tuple(f"{self.name}={level}" for level in shown)

    @classmethod
    def learn(cls, name: str, values: Any, *, impute: bool, layout: str | None = None, dates: Dates) -> Column:
        """What a column of `typed`'s, with two different values at least, says about itself.

        Arguments:
            name: of the column.
            values: of the training rows.
            impute: whether missing values are filled in.
            layout: how dates were written, if it holds dates that were text.
            dates: "calendar" for the seasons of dates too, "days" for a number alone.
        """
        kind, has_missing = kind_of(values), bool(values.isna().any())
        if kind not in ("boolean", "categorical"):
            calendar = None if kind == "numeric" else calendar_of(values, layout, dates)
            numbers = values.to_numpy(dtype=np.float64) if calendar is None else calendar.numbers(values)
            fill = float(np.nanmedian(numbers)) if impute else None
            return cls(name, kind, (), fill, impute and has_missing, calendar=calendar)
        present = np.unique(levels_of(values.dropna())).tolist()
        num_rows = int(values.notna().sum())
        # Nearly every row has a value of its own: a name or a number of the row, which says nothing about other rows.
        if len(present) > 2 and (len(present) == num_rows or (len(present) > 10 and len(present) >= 0.8 * num_rows)):
            raise InputError(
                f"Column `{name}` has {len(present)} different texts in {num_rows} rows, so it looks like an "
                f"identifier. Leave it out: `--drop {name}`. {mixed_note(name, values)}".rstrip()
            )
        if len(present) > MAX_LEVELS:
            raise InputError(
                f"Column `{name}` has {len(present)} levels, and at most {MAX_LEVELS} are coded. Merge rare ones, or "
                f"leave it out: `--drop {name}`."
            )
        if MISSING in present:
            raise InputError(f"Column `{name}` has a level called {MISSING!r}, which is kosambi's own. Rename it.")
        return cls(name, kind, (*present, MISSING) if has_missing and impute else tuple(present))

    def coded(self, values: Any) -> np.ndarray:
        """The columns of `labels`, of a column of `typed`'s."""
        if self.is_measured:
            return self._coded_numbers(values)
        texts = levels_of(values)
        unseen = Counter(texts[~np.isin(texts, self.levels)].tolist())
        if unseen:
            shown = ", ".join(f"`{text}` ({count} rows)" for text, count in unseen.most_common(5))
            more = f" and {len(unseen) - 5} more" if len(unseen) > 5 else ""
            raise InputError(
                f"Column `{self.name}` has levels that were not there in training: {shown}{more}. Known are "
                f"{quoted(self.levels)}. Correct or remove these rows, or fit again with them."
            )
        coded = texts[:, None] == np.array(self.levels)
        return (coded[:, 1:] if len(self.levels) == 2 else coded).astype(np.float64)

    def _coded_numbers(self, values: Any) -> np.ndarray:
        if self.calendar is None:
            numbers = values.to_numpy(dtype=np.float64)
            parts = [np.where(np.isnan(numbers), self.fill, numbers) if np.isnan(numbers).any() else numbers]
        else:
            self.calendar.check_zone(self.name, values)
            numbers = self.calendar.numbers(values)
            parts = [self.calendar.coded(numbers, self.fill)]
        return np.column_stack([*parts, np.isnan(numbers)] if self.has_indicator else parts)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists and dictionaries, for JSON."""
        found = dataclasses.asdict(self) | {"levels": list(self.levels)}
        if self.calendar is not None:
            found["calendar"] |= {"seasons": list(self.calendar.seasons)}
        return found

    @classmethod
    def from_dict(cls, entry: object) -> Column:
        """What `to_dict` gave; refused if it is anything else."""
        kinds: dict[str, Any] = {
            "name": str,
            "kind": str,
            "levels": list,
            "fill": (float, int, type(None)),
            "has_indicator": bool,
            "unit": (str, type(None)),
            "calendar": (dict, type(None)),
        }
        # Runs of format 1 have no units, and those of formats 1 and 2 no dates.
        entry = {"unit": None, "calendar": None} | entry if isinstance(entry, dict) else entry
        fields = checked_fields(entry, kinds, "a column of a schema")
        name, kind, levels, fill = fields["name"], fields["kind"], tuple(fields["levels"]), fields["fill"]
        if kind not in KINDS:
            raise InputError(f"Column `{name}` of a schema has the kind {kind!r}. Kinds are {quoted(KINDS)}.")
        is_measured = kind in ("numeric", "date", "time")
        if not all(isinstance(level, str) for level in levels) or len(set(levels)) != len(levels):
            raise InputError(f"Column `{name}` of a schema has levels that are no different texts.")
        if is_measured == bool(levels) or (not is_measured and len(levels) < 2):
            raise InputError(f"Column `{name}` of a schema is {kind} and has {len(levels)} levels.")
        if isinstance(fill, bool) or (fill is not None and not (is_measured and math.isfinite(fill))):
            raise InputError(f"Column `{name}` of a schema has no finite number to fill in: {fill!r}.")
        if fields["has_indicator"] and fill is None:
            raise InputError(
                f"Column `{name}` of a schema says where numbers were missing, but not what stands for them."
            )
        unit = fields["unit"]
        if unit is not None and (kind != "numeric" or len(unit) > len(THOUSANDS)):
            raise InputError(f"Column `{name}` of a schema is {kind} and has the unit {unit[:20]!r}.")
        calendar = _calendar_from(name, kind, fields["calendar"])
        return cls(name, kind, levels, None if fill is None else float(fill), fields["has_indicator"], unit, calendar)


def _calendar_from(name: str, kind: str, entry: object) -> Calendar | None:
    """What a schema says about dates; refused if it cannot be."""
    if (entry is not None) != (kind in ("date", "time")):
        raise InputError(f"Column `{name}` of a schema is {kind}, and a calendar belongs to dates and times of day.")
    if entry is None:
        return None
    text = (str, type(None))
    fields = checked_fields(
        entry, {"layout": text, "origin": text, "zone": text, "seasons": list}, "a calendar of a schema"
    )
    layout, origin, zone, seasons = (fields[part] for part in ("layout", "origin", "zone", "seasons"))
    if seasons != [season for season in SEASONS if season in seasons]:
        raise InputError(f"Column `{name}` of a schema has seasons that are not some of {quoted(list(SEASONS))}.")
    is_date = kind == "date"
    if (origin is not None) != is_date or (not is_date and (zone is not None or seasons not in ([], ["day"]))):
        raise InputError(f"Column `{name}` of a schema is {kind} and has the origin {origin!r}.")
    known = (*LAYOUTS, None) if is_date else (CLOCK, None)
    if layout not in known and not (is_date and "%" in layout and len(layout) < _LONGEST and check_format(layout)):
        raise InputError(f"Column `{name}` of a schema has times written in a way that is unknown: {layout[:20]!r}.")
    if origin is not None:
        try:
            is_right = datetime.date.fromisoformat(origin).isoformat() == origin
        except ValueError:
            is_right = False
        if not is_right:
            raise InputError(f"Column `{name}` of a schema counts days from {origin[:20]!r}, which is no date.")
    if zone is not None:
        zone_of(zone[:_LONGEST])
    return Calendar(layout, origin, zone, tuple(seasons))


def levels_of(values: Any) -> np.ndarray:
    """A boolean or categorical column as text."""
    if kind_of(values) == "boolean":
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isnan(numbers), MISSING, np.where(numbers == 1.0, "true", "false"))
    texts = np.array([*values.cat.categories, MISSING], dtype=object).astype(str)
    return np.asarray(texts[values.cat.codes.to_numpy()])


def checked_fields(data: object, kinds: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The fields of a dictionary, which are these and no others, each of its type."""
    if not isinstance(data, dict) or set(data) != set(kinds):
        given = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise InputError(f"This is not {what}: it needs {quoted(list(kinds))}. Got {given}.")
    for name, kind in kinds.items():
        if not isinstance(data[name], kind):
            raise InputError(f"`{name}` of {what} has the wrong type: {type(data[name]).__name__}.")
    return data
