r"""Priors over functions: two doors to the same theory.

* `GaussianRandomElement(k, ν)`, the paper's (section 3.5.2, appendix on RKHS priors): F ~ N(0, C) in the Hilbert space
  of k with C f = ∫ k(·, s) f(s) dν(s). Its covariance function is r(x, z) = ∫ k(x, s) k(s, z) dν(s), *not* k. With
  points, F = Σ_i √p_i ω_i k(·, s_i) exactly, ω ~ N(0, I).
* `GaussianProcess(r)`: the covariance function itself, as a kernel means in every Gaussian process library.

Both add a mean m(x), so that F − m is the centred element that bases and coordinates speak of.
"""

from kosambi.priors.base import AbstractPrior, MeanFunction, Named, OutputMean, evaluate_mean
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.gaussian_process import GaussianProcess
from kosambi.priors.random_element import GaussianRandomElement, KernelFunction

__all__ = [
    "AbstractPrior",
    "FunctionDraws",
    "GaussianProcess",
    "GaussianRandomElement",
    "KernelFunction",
    "MeanFunction",
    "Named",
    "OutputMean",
    "evaluate_mean",
]
