"""Samplers: the paper's diffusion, samplers without its bias and its limit on steps, and draws in closed form."""

import warnings
from typing import Any

from kosambi.samplers.base import AbstractMarkovSampler, AbstractSampler, Info, State, Work
from kosambi.samplers.convergence import R_HAT_LIMIT, effective_sample_size, mcse, nested_r_hat
from kosambi.samplers.euler_maruyama import EulerMaruyama
from kosambi.samplers.hmc import HMC
from kosambi.samplers.mala import MALA
from kosambi.samplers.report import GaussianDistribution, LadderReport, LogEvidence, Particles, Report
from kosambi.samplers.run import Exact, sample
from kosambi.samplers.stochastic_gradient import StochasticGradient
from kosambi.samplers.stochastic_report import StochasticReport
from kosambi.samplers.stream_report import StreamReport
from kosambi.samplers.tempering import Tempering

__all__ = [
    "HMC",
    "MALA",
    "R_HAT_LIMIT",
    "AbstractMarkovSampler",
    "AbstractSampler",
    "EulerMaruyama",
    "Exact",
    "GaussianDistribution",
    "Info",
    "LadderReport",
    "LogEvidence",
    "Particles",
    "Report",
    "State",
    "StochasticGradient",
    "StochasticReport",
    "StreamReport",
    "Tempering",
    "Work",
    "effective_sample_size",
    "mcse",
    "nested_r_hat",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name == "GaussianLaw":
        warnings.warn("`GaussianLaw` is now `GaussianDistribution`.", DeprecationWarning, stacklevel=2)
        return GaussianDistribution
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
