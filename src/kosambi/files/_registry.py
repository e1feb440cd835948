"""Which classes a file may hold, under which names, with which fields.

A list of kosambi's own classes: a name in a file is looked up here and nowhere else, and never imported.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from kosambi import basis, calibration, kernels, likelihoods, priors, samplers
from kosambi._core.precision import Module
from kosambi.basis import residual as _residual
from kosambi.basis.inducing import GreedySelection
from kosambi.files._estimators import SavedEstimator
from kosambi.learning import FitReport, HyperparameterDraws, hyperpriors
from kosambi.learning.selected import Selection
from kosambi.likelihoods.quadrature import Rule
from kosambi.posterior import (
    AllData,
    AveragedDraws,
    AveragedPosterior,
    AveragedPrediction,
    BasisExpansion,
    Clipping,
    MatheronDraws,
    ModeSummary,
    NearData,
    Posterior,
    Prediction,
)
from kosambi.posterior.certificate import Certificate
from kosambi.priors import FunctionDraws, MeanFunction, Named, measures
from kosambi.priors.functions import expansions
from kosambi.priors.smoothing import Envelope
from kosambi.samplers import LadderReport, LogEvidence, Report, StochasticReport, StreamReport
from kosambi.target import Target
from kosambi.target.bounds import DivergenceBounds
from kosambi.target.corrected_term import CorrectedTerm
from kosambi.target.data_terms import FactorisedTerm, JointTerm, QuadraticTerm
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.modes import Modes
from kosambi.target.neighborhood import Neighborhood, NeighborReport
from kosambi.target.stream import StreamFacts

# Modules all of whose concrete classes can be saved, so that a new kernel or likelihood needs no change here.
_MODULES: Mapping[str, types.ModuleType] = {
    "kernels": kernels,
    "likelihoods": likelihoods,
    "measures": measures,
    "priors": priors,
    "basis": basis,
    "samplers": samplers,
    "expansions": expansions,
}
# And what these hold, or what is made of them, from elsewhere. Names are part of the file format: never change them.
_OTHERS: Mapping[str, type] = {
    "basis.BasisReport": basis.BasisReport,
    "basis.ProjectionResidual": _residual.ProjectionResidual,
    "basis.GeneralResidual": _residual.GeneralResidual,
    "smoothing.Envelope": Envelope,
    "likelihoods.Rule": Rule,
    "data_terms.QuadraticTerm": QuadraticTerm,
    "data_terms.FactorisedTerm": FactorisedTerm,
    "data_terms.JointTerm": JointTerm,
    "data_terms.MarginalTerm": MarginalTerm,
    "data_terms.CorrectedTerm": CorrectedTerm,
    "target.StreamFacts": StreamFacts,
    "diagnostics.StreamReport": StreamReport,
    "diagnostics.StochasticReport": StochasticReport,
    "target.Neighborhood": Neighborhood,
    "target.NeighborReport": NeighborReport,
    "target.Target": Target,
    "laplace.Modes": Modes,
    "inducing.GreedySelection": GreedySelection,
    "diagnostics.Report": Report,
    "diagnostics.LadderReport": LadderReport,
    "diagnostics.LogEvidence": LogEvidence,
    "hyperparameters.FitReport": FitReport,
    "hyperparameters.HyperparameterDraws": HyperparameterDraws,
    "hyperpriors.LogNormal": hyperpriors.LogNormal,
    "hyperpriors.Normal": hyperpriors.Normal,
    "hyperpriors.LogitNormal": hyperpriors.LogitNormal,
    "hyperpriors.Increments": hyperpriors.Increments,
    "bounds.DivergenceBounds": DivergenceBounds,
    "certificate.Certificate": Certificate,
    "selection.Selection": Selection,
    "calibration.Coverage": calibration.Coverage,
    "calibration.Calibration": calibration.Calibration,
    "calibration.Tempering": calibration.Tempering,
    "calibration.Conformal": calibration.Conformal,
    "draws.FunctionDraws": FunctionDraws,
    "draws.Named": Named,
    "posterior.BasisExpansion": BasisExpansion,
    "posterior.MatheronDraws": MatheronDraws,
    "posterior.AllData": AllData,
    "posterior.NearData": NearData,
    "posterior.Clipping": Clipping,
    "posterior.ModeSummary": ModeSummary,
    "posterior.Posterior": Posterior,
    "posterior.AveragedPosterior": AveragedPosterior,
    "posterior.AveragedPrediction": AveragedPrediction,
    "posterior.AveragedDraws": AveragedDraws,
    "posterior.Prediction": Prediction,
    "estimators.SavedEstimator": SavedEstimator,
}
# The attributes of classes that declare no fields.
_PLAIN: Mapping[type, Mapping[str, Any]] = {
    Posterior: {
        "target": Target,
        "particles": samplers.Particles,
        "selection": Selection | None,
        "reweighting": Certificate | None,
        "report": Report | None,
        "mode_share": float,
        "_largest_variance": float,
    },
    AveragedPosterior: {
        "point": Posterior,
        "components": tuple[Posterior, ...],
        "hyperparameters": HyperparameterDraws | None,
    },
    AveragedPrediction: {"parts": tuple[Prediction, ...]},
    Prediction: {
        "likelihood": likelihoods.AbstractLikelihood,
        "is_noise_known": bool,
        "component_means": Float[np.ndarray, "K N *C"],
        "component_deviation": Float[np.ndarray, " N"],
        "support": Float[np.ndarray, " N"],
        "warnings": tuple[str, ...],
    },
}
MADE_OF_PARTS = (AveragedPosterior, AveragedPrediction)
"""Classes whose constructor takes what a file holds, by name, and makes the rest of it."""
FUNCTION_OWNERS: tuple[type, ...] = (likelihoods.Custom, likelihoods.CustomJoint, Named)
"""Classes whose field `function` is code of the user's, stored by the name in their field `name`."""


class FaultError(Exception):
    """What is wrong with a file, without the name of the file."""


@functools.cache
def registry() -> Mapping[str, type]:
    """Every class that a file may name."""
    found = dict(_OTHERS)
    # A mean that is a function without a name cannot be stored.
    elsewhere = {*_OTHERS.values(), MeanFunction}
    for group, module in _MODULES.items():
        for name, value in vars(module).items():
            # Modules see some of each other's classes, and have aliases; each is stored under its name in its home.
            is_own = isinstance(value, type) and value.__module__.startswith(module.__name__) and value.__name__ == name
            is_concrete = not name.startswith(("_", "Abstract")) and not inspect.isabstract(value)
            if is_own and is_concrete and issubclass(value, Module) and value not in elsewhere:
                found[f"{group}.{name}"] = value
    return types.MappingProxyType(found)


@functools.cache
def names() -> Mapping[type, str]:
    """The name of each class in `registry`."""
    return types.MappingProxyType({cls: name for name, cls in registry().items()})


def fields_of(cls: type) -> Mapping[str, Any]:
    """The fields of a class and their annotations; `Any` for a class of the user's, whom nothing held to them."""
    if cls in _PLAIN:
        return _PLAIN[cls]
    if cls in names():
        return _declared(cls)
    return types.MappingProxyType(dict.fromkeys(_field_names(cls), Any))


@functools.cache
def _declared(cls: type) -> Mapping[str, Any]:
    """The fields of a class of kosambi's; kept, since a file may name a class a hundred thousand times."""
    hints = typing.get_type_hints(cls)
    return types.MappingProxyType({name: hints.get(name, Any) for name in _field_names(cls)})


def _field_names(cls: type) -> Iterator[str]:
    if issubclass(cls, tuple):
        yield from cls._fields  # type: ignore[attr-defined]
        return
    yield from (field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


def custom_name(cls: type) -> str | None:
    """The name that the author of a class gave it; not one that it inherits, since the two would be mixed up."""
    name = vars(cls).get("name")
    return name if isinstance(name, str) and name else None


def is_custom_class(value: object) -> bool:
    """Whether `value` is a class that a file can hold under a name: an Equinox module with an implementation."""
    return isinstance(value, type) and issubclass(value, eqx.Module) and not inspect.isabstract(value)
