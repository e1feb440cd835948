"""Files of older versions: what classes and fields were called then, and what stands for those that are new.

The reader takes every format version up to its own. Whoever renames, adds or removes a field of a class that files
hold, or renames the class, adds a line here and raises `FORMAT_VERSION`; `tests/files/golden` has files of older
versions that must go on loading.

    version 1    kosambi 0.1.0
    version 2    "law" became "distribution"; a posterior keeps its report under that name
    version 3    a target may have neighbours, and an estimator a number of them
    version 4    MALA may take several substeps
    version 5    averages over hyperparameters
    version 6    a target may be of rows that were read as a stream
    version 7    an estimator may begin where its last fit ended
    version 8    an estimator's kernel is in the units of its columns, unless it says otherwise, a report may be of
                 mini-batches of rows, and Gaussian noise that of groups of rows
    version 9    a report says whether rows of a source were held in memory
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any

FORMAT_VERSION = 9
"""Rises when older versions of kosambi could not read what is written now."""
OLDEST_VERSION = 1
"""The oldest format that is read."""

CLASSES: Mapping[str, str] = {
    "samplers.GaussianLaw": "samplers.GaussianDistribution",
}
"""Classes that have another name now, old to new."""
FIELDS: Mapping[str, Mapping[str, str]] = {
    "samplers.Particles": {"law": "distribution"},
    "posterior.Posterior": {"_report": "report"},
}
"""Fields that have another name now: for each class, by its present name, old to new."""
REMOVED: Mapping[str, frozenset[str]] = {
    "posterior.Posterior": frozenset({"_notes"}),
}
"""Fields that are no more; what a file holds there is left aside."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "estimators.SavedEstimator": {
        "n_neighbors": 0,
        "kernel_units": "standardized",
        "freeze": {"tuple": []},
        "tie": {"tuple": []},
    },
    "hyperparameters.FitReport": {"priors": {"dict": []}},
    "posterior.Posterior": {"mode_share": 1.0},
    "samplers.MALA": {"max_substeps": 4},
}
"""Values, as a file would hold them, of fields that are new and whose class declares no default."""


def present_name(name: str) -> str:
    """What a class is called now.

    >>> present_name("samplers.GaussianLaw"), present_name("kernels.Matern52")
    ('samplers.GaussianDistribution', 'kernels.Matern52')
    """
    return CLASSES.get(name, name)


def present_fields(name: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a class under their present names, and those that are no more.

    >>> present_fields("posterior.Posterior", {"_report": None, "_notes": {"tuple": []}})
    ({'report': None, 'mode_share': 1.0}, {'_notes': {'tuple': []}})
    """
    names, removed = FIELDS.get(name, {}), REMOVED.get(name, frozenset())
    kept = {names.get(field, field): value for field, value in given.items() if field not in removed}
    left = {field: value for field, value in given.items() if field in removed}
    return kept | {f: value for f, value in DEFAULTS.get(name, {}).items() if f not in kept}, left


def declared_defaults(cls: type) -> Mapping[str, Any]:
    """What the class itself says of fields that a file does not have: simple values only, which nothing can share."""
    if issubclass(cls, tuple):
        found = dict(getattr(cls, "_field_defaults", {}))
    elif dataclasses.is_dataclass(cls):
        found = {field.name: field.default for field in dataclasses.fields(cls)}
    else:
        found = {}
    return types.MappingProxyType({name: value for name, value in found.items() if _is_simple(value)})


def _is_simple(value: object) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
