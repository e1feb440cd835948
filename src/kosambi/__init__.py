"""kosambi draws whole functions from Bayes posteriors: projected Langevin sampling in JAX.

The data flow, one module an arrow:

    kernels, measures ─► priors ─► inducing ─► basis ─► target ─► samplers ─► posterior ─► predictions, plots, files
                                                         ▲
                                              likelihoods, data

A kernel says how a function changes with its inputs. A prior turns it into a law over functions, and draws from it are
callables. Inducing points say where to look; a basis sums a function up by M coordinates. A likelihood says what an
observation costs; a target is the potential that the coordinates have given the data. A sampler draws particles from
it, and a report says how far they can be trusted. The posterior carries them back to functions, which are callables
again, and to predictions. `kosambi.infer` walks the whole line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kosambi._version import __version__ as __version__

if TYPE_CHECKING:
    from kosambi import basis as basis
    from kosambi import bounds as bounds
    from kosambi import certificate as certificate
    from kosambi import comparison as comparison
    from kosambi import diagnostics as diagnostics
    from kosambi import errors as errors
    from kosambi import estimators as estimators
    from kosambi import evidence as evidence
    from kosambi import files as files
    from kosambi import hyperparameters as hyperparameters
    from kosambi import importance as importance
    from kosambi import inducing as inducing
    from kosambi import kernels as kernels
    from kosambi import laplace as laplace
    from kosambi import likelihoods as likelihoods
    from kosambi import measures as measures
    from kosambi import page as page
    from kosambi import plots as plots
    from kosambi import posterior as posterior
    from kosambi import priors as priors
    from kosambi import samplers as samplers
    from kosambi import selection as selection
    from kosambi import tables as tables
    from kosambi.basis import InducingBasis as InducingBasis
    from kosambi.basis import NystromBasis as NystromBasis
    from kosambi.basis import PointBasis as PointBasis
    from kosambi.basis import RitzBasis as RitzBasis
    from kosambi.comparison import compare as compare
    from kosambi.draws import FunctionDraws as FunctionDraws
    from kosambi.draws import Named as Named
    from kosambi.estimators import ProjectedLangevinClassifier as ProjectedLangevinClassifier
    from kosambi.estimators import ProjectedLangevinRegressor as ProjectedLangevinRegressor
    from kosambi.files import load as load
    from kosambi.files import save as save
    from kosambi.hyperparameters import FitReport as FitReport
    from kosambi.hyperparameters import fit_hyperparameters as fit_hyperparameters
    from kosambi.inference import infer as infer
    from kosambi.posterior import Posterior as Posterior
    from kosambi.posterior import Prediction as Prediction
    from kosambi.priors import GaussianProcess as GaussianProcess
    from kosambi.priors import GaussianRandomElement as GaussianRandomElement
    from kosambi.samplers import sample as sample
    from kosambi.selection import select_inducing as select_inducing
    from kosambi.target import Target as Target

# Imported when they are first asked for, so that `kosambi --help` need not wait for JAX.
_MODULES = (
    "basis",
    "bounds",
    "certificate",
    "comparison",
    "diagnostics",
    "errors",
    "estimators",
    "evidence",
    "files",
    "hyperparameters",
    "importance",
    "inducing",
    "kernels",
    "laplace",
    "likelihoods",
    "measures",
    "page",
    "plots",
    "posterior",
    "priors",
    "samplers",
    "selection",
    "tables",
)
_PLACES = {
    "FitReport": "hyperparameters",
    "FunctionDraws": "draws",
    "GaussianProcess": "priors",
    "GaussianRandomElement": "priors",
    "InducingBasis": "basis",
    "Named": "draws",
    "NystromBasis": "basis",
    "PointBasis": "basis",
    "Posterior": "posterior",
    "Prediction": "posterior",
    "ProjectedLangevinClassifier": "estimators",
    "ProjectedLangevinRegressor": "estimators",
    "RitzBasis": "basis",
    "Target": "target",
    "compare": "comparison",
    "fit_hyperparameters": "hyperparameters",
    "infer": "inference",
    "load": "files",
    "sample": "samplers",
    "save": "files",
    "select_inducing": "selection",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kosambi.{name}")
    if name in _PLACES:
        value = getattr(importlib.import_module(f"kosambi.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kosambi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PLACES})
