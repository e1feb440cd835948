"""Likelihoods: how observations depend on the latent function, as a cost c(y, f) = −log p(y | f).

Any other one is `Custom(cost)` for a cost of one datum, or `CustomJoint(loss)` for a loss that does not split.
"""

from kosambi.likelihoods.base import AbstractLikelihood as AbstractLikelihood
from kosambi.likelihoods.continuous import Gaussian as Gaussian
from kosambi.likelihoods.continuous import StudentT as StudentT
from kosambi.likelihoods.counts import NegativeBinomial as NegativeBinomial
from kosambi.likelihoods.counts import Poisson as Poisson
from kosambi.likelihoods.custom import Custom as Custom
from kosambi.likelihoods.custom import CustomJoint as CustomJoint
from kosambi.likelihoods.discrete import Bernoulli as Bernoulli
from kosambi.likelihoods.discrete import Ordinal as Ordinal
from kosambi.likelihoods.heteroscedastic import HeteroscedasticGaussian as HeteroscedasticGaussian
from kosambi.likelihoods.mixture import ShiftMixture as ShiftMixture
from kosambi.likelihoods.positive import Exponential as Exponential
from kosambi.likelihoods.positive import Gamma as Gamma
from kosambi.likelihoods.robust import Huber as Huber
from kosambi.likelihoods.robust import Laplace as Laplace
from kosambi.likelihoods.several import Categorical as Categorical
