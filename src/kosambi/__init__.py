"""kosambi draws whole functions from Bayes posteriors: projected Langevin sampling in JAX.

The data flow, one package an arrow:

    kernels ─► priors ─► basis ─► target ─► samplers ─► posterior ─► predictions, plots, files
                                    ▲                       ▲
                          likelihoods, data        learning, calibration

A kernel says how a function changes with its inputs. A prior turns it into a distribution over functions, and draws
from it are callables. Inducing points say where to look; a basis sums a function up by M coordinates. A likelihood says
what an observation costs; a target is the potential that the coordinates have given the data. A sampler draws particles
from it, and a report says how far they can be trusted. The posterior carries them back to functions, which are
callables again, and to predictions. `kosambi.infer` walks the whole line; `kosambi.fit_hyperparameters` learns kernel
and likelihood first, and `kosambi.average` averages over them; the estimators do all that behind scikit-learn's `fit`
and `predict`.
"""

from __future__ import annotations

import importlib
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kosambi._version import __version__ as __version__

if TYPE_CHECKING:
    from kosambi import acquisition as acquisition
    from kosambi import basis as basis
    from kosambi import calibration as calibration
    from kosambi import errors as errors
    from kosambi import estimators as estimators
    from kosambi import files as files
    from kosambi import kernels as kernels
    from kosambi import learning as learning
    from kosambi import likelihoods as likelihoods
    from kosambi import outputs as outputs
    from kosambi import page as page
    from kosambi import parallel as parallel
    from kosambi import plots as plots
    from kosambi import posterior as posterior
    from kosambi import priors as priors
    from kosambi import samplers as samplers
    from kosambi import sources as sources
    from kosambi import tables as tables
    from kosambi import target as target
    from kosambi._core.checkpoints import Checkpoint as Checkpoint
    from kosambi.averaging import average as average
    from kosambi.basis import InducingBasis as InducingBasis
    from kosambi.basis import NystromBasis as NystromBasis
    from kosambi.basis import PointBasis as PointBasis
    from kosambi.basis import RitzBasis as RitzBasis
    from kosambi.basis import inducing as inducing
    from kosambi.estimators import ProjectedLangevinClassifier as ProjectedLangevinClassifier
    from kosambi.estimators import ProjectedLangevinRegressor as ProjectedLangevinRegressor
    from kosambi.files import load as load
    from kosambi.files import save as save
    from kosambi.inference import infer as infer
    from kosambi.learning import FitReport as FitReport
    from kosambi.learning import HyperparameterDraws as HyperparameterDraws
    from kosambi.learning import fit_hyperparameters as fit_hyperparameters
    from kosambi.learning import hyperpriors as hyperpriors
    from kosambi.learning import select_inducing as select_inducing
    from kosambi.posterior import AveragedPosterior as AveragedPosterior
    from kosambi.posterior import Posterior as Posterior
    from kosambi.posterior import Prediction as Prediction
    from kosambi.posterior import compare as compare
    from kosambi.priors import FunctionDraws as FunctionDraws
    from kosambi.priors import GaussianProcess as GaussianProcess
    from kosambi.priors import GaussianRandomElement as GaussianRandomElement
    from kosambi.priors import Named as Named
    from kosambi.priors import measures as measures
    from kosambi.samplers import sample as sample
    from kosambi.target import Target as Target
    from kosambi.target import log_evidence as log_evidence

# Imported when they are first asked for, so that `kosambi --help` need not wait for JAX.
_MODULES = {
    "acquisition": "acquisition",
    "basis": "basis",
    "calibration": "calibration",
    "errors": "errors",
    "estimators": "estimators",
    "files": "files",
    "hyperpriors": "learning.hyperpriors",
    "inducing": "basis.inducing",
    "kernels": "kernels",
    "learning": "learning",
    "likelihoods": "likelihoods",
    "measures": "priors.measures",
    "outputs": "outputs",
    "page": "page",
    "parallel": "parallel",
    "plots": "plots",
    "posterior": "posterior",
    "priors": "priors",
    "samplers": "samplers",
    "sources": "sources",
    "tables": "tables",
    "target": "target",
}
_PLACES = {
    "AveragedPosterior": "posterior",
    "Checkpoint": "_core.checkpoints",
    "FitReport": "learning",
    "FunctionDraws": "priors",
    "GaussianProcess": "priors",
    "GaussianRandomElement": "priors",
    "HyperparameterDraws": "learning",
    "InducingBasis": "basis",
    "Named": "priors",
    "NystromBasis": "basis",
    "PointBasis": "basis",
    "Posterior": "posterior",
    "Prediction": "posterior",
    "ProjectedLangevinClassifier": "estimators",
    "ProjectedLangevinRegressor": "estimators",
    "RitzBasis": "basis",
    "Target": "target",
    "average": "averaging",
    "compare": "posterior",
    "fit_hyperparameters": "learning",
    "infer": "inference",
    "load": "files",
    "log_evidence": "target",
    "sample": "samplers",
    "save": "files",
    "select_inducing": "learning",
}
# Modules of version 0.1.0, and where their contents are now.
_RENAMED = {
    "bounds": "target.bounds",
    "certificate": "posterior.certificate",
    "comparison": "posterior.comparison",
    "evidence": "target.evidence",
    "hyperparameters": "learning",
    "importance": "posterior.importance",
    "laplace": "target.modes",
    "selection": "learning.selection",
}

__all__ = ["__version__", *_MODULES, *_PLACES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kosambi.{_MODULES[name]}")
    if name in _PLACES:
        value = getattr(importlib.import_module(f"kosambi.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    if name in _RENAMED or name == "diagnostics":
        new = "kosambi.samplers` and `kosambi.calibration" if name == "diagnostics" else f"kosambi.{_RENAMED[name]}"
        warnings.warn(f"`kosambi.{name}` is now `{new}`.", DeprecationWarning, stacklevel=2)
        if name == "diagnostics":
            return _diagnostics()
        return importlib.import_module(new)
    raise AttributeError(f"module 'kosambi' has no attribute {name!r}")


def _diagnostics() -> SimpleNamespace:
    samplers = importlib.import_module("kosambi.samplers")
    names = ("LadderReport", "LogEvidence", "R_HAT_LIMIT", "Report", "effective_sample_size", "mcse", "nested_r_hat")
    calibration = importlib.import_module("kosambi.calibration")
    return SimpleNamespace(calibration=calibration, **{name: getattr(samplers, name) for name in names})


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PLACES})
