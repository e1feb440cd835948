r"""All outputs of an input together: their means, covariances and joint density.

Given the data, the P values of f at an input are normal where noise is Gaussian,

    Cov(f_p, f_q | data) = r_pq − a_pᵀa_q + s_pᵀs_q,

with a the whitened features ψ and s = Rᵀψ of coordinates w ~ N(μ, RRᵀ), or a = L⁻¹W^½ r(X, ·) of all rows and no s.
Over draws of the coordinates, and over drawn hyperparameters, the distribution is a mixture of such normal ones.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_inputs, as_positive
from kosambi._core.linalg import host_blocks
from kosambi._core.precision import compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.kernels.coregionalization import coregionalizations
from kosambi.likelihoods import Gaussian
from kosambi.outputs.stacking import every_cell
from kosambi.posterior import AveragedPosterior, AveragedPrediction, Posterior, Prediction
from kosambi.priors import AbstractPrior

# Numbers of one block of features.
_NUMBERS = 2**22


class JointPrediction:
    """The joint predictive distribution of P outputs at each of n inputs; made by `kosambi.outputs.predict`.

    Arguments:
        marginals: the prediction of every cell by itself, n·P of them.
        covariance: (K, n, P, P), of f in each of K components; (1, n, P, P) where all have the same.
        noise: (K, P), standard deviations of the noise; (1, P) where all have the same.
    """

    def __init__(
        self,
        marginals: Prediction,
        covariance: Float[np.ndarray, "K1 n P P"],
        noise: Float[np.ndarray, "K2 P"],
    ) -> None:
        self.marginals = marginals
        """Every cell by itself, those of an input next to each other."""
        self.component_covariance = covariance
        """(K, n, P, P), or (1, n, P, P): covariances of f within the components."""
        self.noise = noise
        """(K, P), or (1, P): standard deviations of the noise."""

    @property
    def num_outputs(self) -> int:
        """P."""
        return int(self.noise.shape[1])

    @property
    def component_means(self) -> Float[np.ndarray, "K n P"]:
        """(K, n, P): means of f in the components."""
        means = np.asarray(self.marginals.component_means)
        return means.reshape(len(means), -1, self.num_outputs)

    @functools.cached_property
    def mean(self) -> Float[np.ndarray, "n P"]:
        """E y = E f, (n, P)."""
        return np.mean(self.component_means, axis=0)

    @functools.cached_property
    def latent_covariance(self) -> Float[np.ndarray, "n P P"]:
        """Cov(f_p, f_q), (n, P, P): without noise."""
        away = self.component_means - self.mean
        between = np.einsum("knp,knq->npq", away, away) / len(away)
        return np.mean(self.component_covariance, axis=0) + between

    @functools.cached_property
    def covariance(self) -> Float[np.ndarray, "n P P"]:
        """Cov(y_p, y_q), (n, P, P): of observations, with the noise on the diagonal."""
        return self.latent_covariance + np.diag(np.mean(np.square(self.noise), axis=0))

    @property
    def standard_deviation(self) -> Float[np.ndarray, "n P"]:
        """Of observations, (n, P)."""
        return np.sqrt(np.einsum("npp->np", self.covariance))

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, "*Q n P"]:
        """The q-quantile of each output by itself: (n, P) for a number q, (Q, n, P) for Q of them."""
        found = np.asarray(self.marginals.quantile(q))
        return found.reshape(*np.shape(q), -1, self.num_outputs)

    def interval(self, coverage: float = 0.95) -> tuple[Float[np.ndarray, "n P"], Float[np.ndarray, "n P"]]:
        """(lower, upper), each (n, P): an observation of that output lies between them with that probability."""
        lower, upper = self.marginals.interval(coverage)
        return lower.reshape(-1, self.num_outputs), upper.reshape(-1, self.num_outputs)

    def log_density(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """The joint log density of the outputs of each row of y (n, P).

        Cells that are NaN are integrated out: the density is that of the cells that are there, zero nats for a row
        without any.
        """
        given = np.asarray(as_float_array("y", y))
        means = self.component_means
        if given.shape != means.shape[1:]:
            raise InputError(
                f"`y` has shape {given.shape} for {means.shape[1]} inputs and {self.num_outputs} outputs. Give a row "
                "for each input and a column for each output, NaN where there is no observation."
            )
        if np.isinf(given).any():
            raise InputError("`y` has infinite values. Write NaN for a cell that was not observed.")
        noise = np.square(self.noise)[:, None, :, None] * np.eye(self.num_outputs)
        covariance = self.component_covariance + noise
        seen = ~np.isnan(given)
        # A cell that was not observed is an independent one of variance one and error zero, which adds nothing.
        pairs = seen[:, :, None] & seen[:, None, :]
        covariance = np.where(pairs, covariance, np.eye(self.num_outputs))
        factor = np.linalg.cholesky(covariance)
        error = np.where(seen, np.nan_to_num(given) - means, 0.0)
        white = np.linalg.solve(np.broadcast_to(factor, (len(means), *factor.shape[1:])), error[..., None])[..., 0]
        log_determinant = 2.0 * np.sum(np.log(np.einsum("knpp->knp", factor)), axis=2)
        constant = np.sum(seen, axis=1) * np.log(2.0 * np.pi)
        every = -0.5 * (np.sum(np.square(white), axis=2) + log_determinant + constant)
        return np.logaddexp.reduce(every, axis=0) - np.log(len(every))

    def in_units(self, location: ArrayLike, scale: ArrayLike) -> JointPrediction:
        """The distribution of location + scale·y, both (P,)."""
        shift, factor = (np.broadcast_to(np.asarray(each), self.num_outputs) for each in (location, scale))
        number = self.component_means.shape[1]
        moved = _moved(self.marginals, np.tile(shift, number), np.tile(factor, number))
        return JointPrediction(moved, self.component_covariance * np.outer(factor, factor), self.noise * factor)

    def __repr__(self) -> str:
        count = self.component_means.shape
        return f"JointPrediction({count[1]} inputs, {count[2]} outputs, {count[0]} components)"


@public
def predict(posterior: Posterior, x_new: ArrayLike, *, noise: ArrayLike | None = None) -> JointPrediction:
    """The joint predictive distribution of all outputs at each of some inputs.

    Arguments:
        posterior: of rows that are cells, with Gaussian noise, as `infer` gives for y of shape (N, P).
        x_new: (n, D), inputs without the number of an output.
        noise: (P,), that of each output; as in the posterior when None.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 3.0, 20)[:, None]
    >>> y = np.column_stack([np.sin(x[:, 0]), 2.0 * np.sin(x[:, 0])])
    >>> y[10:, 1] = np.nan
    >>> kernel = ko.kernels.Coregionalization([[1.0], [2.0]], [0.01, 0.01]) * ko.kernels.Matern52(active_dims=[0])
    >>> posterior = ko.infer(jax.random.key(0), kernel, ko.likelihoods.Gaussian([0.05, 0.1]), x, y)
    >>> joint = ko.outputs.predict(posterior, [[2.5]])
    >>> joint.mean.round(1), joint.covariance.shape
    (array([[0.6, 1.2]]), (1, 2, 2))
    """
    terms = coregionalizations(posterior.prior.kernel)
    columns = posterior.target.x.shape[1]
    if not terms or any(term.column not in (-1, columns - 1) for term in terms):
        raise InputError(
            "`outputs.predict` is for a kernel with `Coregionalization` on the last column, which holds the number of "
            f"the output. Got {posterior.prior.kernel!r}. Use `posterior.predict` for one output."
        )
    if not isinstance(posterior.likelihood, Gaussian):
        raise InputError(
            f"Outputs have a joint normal distribution with `Gaussian` noise. Got {type(posterior.likelihood).__name__}"
            ". Use `posterior.predict(kosambi.outputs.every_cell(x, P))` for each cell by itself, or functions drawn."
        )
    number = terms[0].num_outputs
    cells = every_cell(as_inputs("x_new", x_new, columns - 1, allow_empty=True), number)
    parts = posterior.components if isinstance(posterior, AveragedPosterior) else (posterior,)
    noises = [_noise(part, number, noise) for part in parts]
    rows = len(cells) // number
    every = [part.predict(cells, noise=np.tile(own, rows)) for part, own in zip(parts, noises, strict=True)]
    covariance = np.stack([_covariance(part, cells, number) for part in parts])
    if len(parts) == 1:
        return JointPrediction(every[0], covariance, np.stack(noises))
    # The components of a mixture of models go through the models in turn.
    times = len(every[0].component_means)
    averaged = AveragedPrediction(tuple(every))
    return JointPrediction(averaged, np.tile(covariance, (times, 1, 1, 1)), np.tile(np.stack(noises), (times, 1)))


def _moved(cells: Prediction, shift: Float[np.ndarray, " C"], factor: Float[np.ndarray, " C"]) -> Prediction:
    """The prediction of shift + factor·y."""
    if isinstance(cells, AveragedPrediction):
        return AveragedPrediction(tuple(_moved(part, shift, factor) for part in cells.parts))
    likelihood = Gaussian(np.asarray(cells.likelihood.noise) * factor)  # type: ignore[attr-defined]
    parts = shift + factor * cells.component_means, factor * cells.component_deviation, cells.support
    return Prediction(likelihood, *parts, cells.warnings)


def _noise(posterior: Posterior, number: int, given: ArrayLike | None) -> Float[np.ndarray, " P"]:
    likelihood = posterior.likelihood
    assert isinstance(likelihood, Gaussian)
    if given is None and likelihood.num_rows is not None and likelihood.groups is None:
        raise InputError("The noise of this posterior is one number per cell. Give that of the outputs, `noise=[...]`.")
    found = np.asarray(likelihood.noise if given is None else as_positive("noise", given, max_ndim=1))
    if found.shape not in ((), (number,)):
        raise InputError(f"`noise` has {len(found)} entries for {number} outputs. Give one for each output.")
    return np.array(np.broadcast_to(found, (number,)))


def _covariance(posterior: Posterior, cells: Float[np.ndarray, "C D1"], number: int) -> Float[np.ndarray, "n P P"]:
    """Cov(f_p, f_q) at each input, in blocks of inputs."""
    target, basis = posterior.target, posterior.basis
    rows = target.neighborhood
    if rows is not None and not (rows.is_all and not basis.size):
        raise InputError(
            "With neighbours the covariance of two outputs is a sum over pairs of them, which is not computed. Use "
            "`infer` with `num_neighbors=0`, or functions drawn from the posterior."
        )
    known = posterior.particles.distribution
    inputs = cells.reshape(-1, number, cells.shape[1])
    found = np.empty((len(inputs), number, number))
    width = len(target.x) if rows is not None else basis.size
    for part in host_blocks(len(inputs), max(1, _NUMBERS // (number * max(width, 1)))):
        own = np.asarray(_within(posterior.prior, inputs[part]))
        flat = inputs[part].reshape(-1, cells.shape[1])
        if rows is not None:
            cross = np.asarray(posterior.prior.covariance(np.asarray(rows.x), flat))
            removed, added = rows.all_rows(basis).whitened(cross).T, None
        else:
            removed = np.asarray(basis.whitened_mean(flat))
            added = None if known is None else removed @ np.asarray(known.root)
        own = own - _products(removed, number)
        found[part] = own if added is None else own + _products(added, number)
    return found


def _products(values: Float[np.ndarray, "C K"], number: int) -> Float[np.ndarray, "n P P"]:
    split = values.reshape(-1, number, values.shape[1])
    return split @ np.moveaxis(split, 1, 2)


@compiled
def _within(prior: AbstractPrior, inputs: Array) -> Array:
    return jax.vmap(lambda cells: prior.pairwise(cells, cells))(inputs)
