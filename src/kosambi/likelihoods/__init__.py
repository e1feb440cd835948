"""Likelihoods: how observations depend on the latent function, as a cost c(y, f) = −log p(y | f).

The imports below are the table of all likelihoods, which files, estimators, the command line and the tests read: a new
one is a file of its own and one line here. Without either, `Custom(cost)` takes a cost of one observation, and
`CustomJoint(loss)` a loss that does not split into a sum over observations.
"""

from collections.abc import Mapping

from kosambi.likelihoods.base import AbstractLikelihood as AbstractLikelihood
from kosambi.likelihoods.bernoulli import Bernoulli as Bernoulli
from kosambi.likelihoods.categorical import Categorical as Categorical
from kosambi.likelihoods.custom import Custom as Custom
from kosambi.likelihoods.custom import CustomJoint as CustomJoint
from kosambi.likelihoods.gamma import Exponential as Exponential
from kosambi.likelihoods.gamma import Gamma as Gamma
from kosambi.likelihoods.gaussian import Gaussian as Gaussian
from kosambi.likelihoods.heteroscedastic import HeteroscedasticGaussian as HeteroscedasticGaussian
from kosambi.likelihoods.huber import Huber as Huber
from kosambi.likelihoods.laplace import Laplace as Laplace
from kosambi.likelihoods.negative_binomial import NegativeBinomial as NegativeBinomial
from kosambi.likelihoods.ordinal import Ordinal as Ordinal
from kosambi.likelihoods.poisson import Poisson as Poisson
from kosambi.likelihoods.shift_mixture import ShiftMixture as ShiftMixture
from kosambi.likelihoods.student_t import StudentT as StudentT
from kosambi.likelihoods.zero_inflated import ZeroInflatedPoisson as ZeroInflatedPoisson

TABLE: Mapping[str, type[AbstractLikelihood]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractLikelihood) and value is not AbstractLikelihood
}
"""Every likelihood by the name of its class, under which files store it."""

BY_SHORT_NAME: Mapping[str, type[AbstractLikelihood]] = {
    cls.short_name: cls for cls in TABLE.values() if cls.short_name is not None
}
"""Those that estimators and the command line know by a name."""

__all__ = ["BY_SHORT_NAME", "TABLE", "AbstractLikelihood", *TABLE]
