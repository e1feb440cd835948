"""Functions drawn from a prior: finite sums that can be evaluated anywhere, and the waves that they are made of."""

from kosambi.priors.functions.draws import FunctionDraws, Named

__all__ = ["FunctionDraws", "Named"]
