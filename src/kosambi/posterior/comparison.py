"""`kosambi.compare`: models of the same data, by their log marginal likelihood (evidence)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from kosambi.errors import InputError
from kosambi.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Models in the order of their evidence, the best first. `kosambi.compare` makes it; `print` shows a table."""

    names: tuple[str, ...]
    log_evidence: Float[np.ndarray, " n"]
    """The log marginal likelihood of each."""
    standard_error: Float[np.ndarray, " n"]
    """The Monte Carlo standard error of each."""
    methods: tuple[str, ...]
    """How each was computed; see `kosambi.samplers.LogEvidence`."""

    @property
    def difference(self) -> Float[np.ndarray, " n"]:
        """Log Bayes factors against the best model: zero or less."""
        return self.log_evidence - self.log_evidence[0]

    @property
    def probability(self) -> Float[np.ndarray, " n"]:
        """Posterior probabilities of the models, if they were equally probable before."""
        weights = np.exp(self.difference)
        return weights / weights.sum()

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.names, "model"))
        lines = [f"{'model':{width}s}  log evidence            difference  probability"]
        rows = zip(self.names, self.log_evidence, self.standard_error, self.difference, self.probability, strict=True)
        for name, value, error, difference, share in rows:
            lines.append(f"{name:{width}s}  {value:12.3f} ± {error:<7.3f}  {difference:10.3f}  {share:11.3f}")
        return "\n".join(lines)


def compare(posteriors: Mapping[str, Posterior]) -> Comparison:
    """Kernels, priors and likelihoods by the evidence of the same data; see `Posterior.log_evidence`.

    The evidence is that of the potential that was sampled: differences in M and in the potential count too.

    Arguments:
        posteriors: by name, of the same observations.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y, gaussian = np.sin(x[:, 0]), ko.likelihoods.Gaussian(0.1)
    >>> kernels = {"short": ko.kernels.SquaredExponential(0.1), "long": ko.kernels.SquaredExponential(1.5)}
    >>> fits = {name: ko.infer(jax.random.key(0), kernel, gaussian, x, y) for name, kernel in kernels.items()}
    >>> ko.compare(fits).names
    ('long', 'short')
    """
    if not isinstance(posteriors, Mapping) or not posteriors:
        raise InputError("`compare` needs a dictionary from names to posteriors, with one at least.")
    wrong = [name for name, value in posteriors.items() if not isinstance(value, Posterior)]
    if wrong:
        raise InputError(f"`compare` needs posteriors. `{wrong[0]}` is a {type(posteriors[wrong[0]]).__name__}.")
    first = next(iter(posteriors.values())).target
    for name, value in posteriors.items():
        if not np.array_equal(value.target.y, first.y):
            raise InputError(f"`{name}` has other observations than the first. Evidences are of the same data.")
    found = {name: value.log_evidence for name, value in posteriors.items()}
    order = sorted(found, key=lambda name: -found[name].value)
    return Comparison(
        tuple(order),
        np.array([found[name].value for name in order]),
        np.array([found[name].standard_error for name in order]),
        tuple(found[name].method for name in order),
    )
