"""Export to ArviZ: particles as draws of chains, with log likelihoods, in 0.23's and 1.x's containers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import host_blocks
from kosambi._core.precision import public
from kosambi._core.types import Array
from kosambi._version import __version__
from kosambi.posterior._predictive import Latent, latent_distribution
from kosambi.samplers import Particles, Report
from kosambi.target import Target
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.neighborhood import Near, Neighborhood, earlier_rows

# Particles times data of one block.
_VALUES_AT_ONCE = 2**20


def to_arviz(
    parts: Sequence[tuple[Target, Particles]],
    report: Report | None,
    num_chains: int,
    log_likelihood: bool,
    values: Mapping[str, Float[np.ndarray, "K ..."]] | None = None,
) -> Any:
    """`Posterior.to_arviz`, with checked arguments.

    Arguments:
        parts: the target and the particles of each of K models, as many of these each; mostly one.
        report: how they were drawn.
        num_chains: at most so many.
        log_likelihood: whether to add it.
        values: hyperparameters of the K models, by name, that become variables.
    """
    arviz = _imported()
    target = parts[0][0]
    num_particles = sum(particles.num_particles for _, particles in parts)
    # The largest number that deals all particles out, with as many draws as chains at least.
    divisors = [count for count in range(1, min(num_chains, num_particles) + 1) if num_particles % count == 0]
    chains = max(count for count in divisors if count**2 <= num_particles)

    def dealt(values: Array) -> Array:
        """(J, ...) to (chains, draws, ...), particle j to chain j mod `chains`."""
        return np.ascontiguousarray(
            np.swapaxes(np.reshape(values, (len(values) // chains, chains, *values.shape[1:])), 0, 1)
        )

    def of_all(function: Callable[[Target, Particles], Array]) -> Array:
        """Of every particle, (J, ...): the j-th is one of model j mod K."""
        every = np.stack([np.asarray(function(*part)) for part in parts], axis=1)
        return dealt(every.reshape(num_particles, *every.shape[2:]))

    several = ["latent"] if len(target.shape) == 2 else []
    groups = {
        "posterior": {},
        "sample_stats": {"lp": of_all(lambda t, p: -np.asarray(t.potential(p.coordinates)))},
        "observed_data": {"y": np.asarray(target.y)},
        "constant_data": {"x": np.asarray(target.x)},
    }
    if len({t.shape for t, _ in parts}) == 1:
        # Models that have dropped other points have no coordinates in common.
        groups["posterior"] |= {"u": of_all(lambda _, p: p.coordinates), "w": of_all(lambda _, p: p.whitened)}
    if report is not None and len(report.acceptance_by_particle) == num_particles:
        groups["sample_stats"]["acceptance_rate"] = dealt(np.asarray(report.acceptance_by_particle))
    if log_likelihood and target.likelihood.is_density:
        groups["log_likelihood"] = {"y": of_all(log_likelihoods)}
    for name, each in (values or {}).items():
        # Draw j has the hyperparameters of model j mod K.
        groups["posterior"][name] = dealt(np.asarray(each)[np.arange(num_particles) % len(parts)])
    dims = {"u": ["coordinate", *several], "w": ["coordinate", *several], "y": ["obs"], "x": ["obs", "column"]}
    coords = {
        "coordinate": np.arange(target.shape[0]),
        "obs": np.arange(target.x.shape[0]),
        "column": np.arange(target.x.shape[1]),
    }
    if several:
        coords["latent"] = np.arange(target.shape[1])
    return _container(arviz, groups, dims, coords, _attributes(target, report))


def _imported() -> Any:
    try:
        with warnings.catch_warnings():
            # 0.23 announces 1.x once a day, which users of this method can do nothing about.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise ImportError("`to_arviz` needs ArviZ. Install it with `pip install kosambi[arviz]`.") from error
    return arviz


def _container(arviz: Any, groups: dict[str, Any], dims: Any, coords: Any, attributes: dict[str, Any]) -> Any:
    """`InferenceData` of ArviZ 0.23, which takes groups by name, or the `DataTree` of 1.x, which takes them in one."""
    if "posterior" in inspect.signature(arviz.from_dict).parameters:
        data = arviz.from_dict(**groups, dims=dims, coords=coords)
        data.attrs.update(attributes)
        for name in groups:
            data[name].attrs.update(attributes)
        return data
    return arviz.from_dict(
        groups, dims=dims, coords=coords, attrs={"/": attributes, **dict.fromkeys(groups, attributes)}
    )


def _attributes(target: Target, report: Report | None) -> dict[str, Any]:
    """Numbers and strings only, because files hold nothing else."""
    known = {
        "inference_library": "kosambi",
        "inference_library_version": __version__,
        "num_data": target.num_rows,
        "num_coordinates": target.basis.size,
        "basis": type(target.basis).__name__,
        "likelihood": type(target.likelihood).__name__,
        "potential": target.kind,
    }
    if target.stream is not None:
        known["sample_of_data"] = target.x.shape[0]
    if report is not None:
        known |= {"sampler": report.sampler, "converged": int(report.converged), "nested_r_hat": float(report.r_hat)}
    return known


@public
def log_likelihoods(target: Target, particles: Particles) -> Float[Array, "J N"]:
    """log p(y_n | u_j), the residual of f integrated out, in blocks of data; times the weights of the target.

    With neighbours given the sites of those that stand before a row, too, so that their sum is that of the potential
    where every observation counts once.
    """
    if target.neighborhood is None:
        # Without the distribution of the particles: what is asked for is conditional on each of them.
        latent = latent_distribution(target, Particles(particles.coordinates, particles.whitened), target.x)
    else:
        latent = _given_earlier(target, target.neighborhood, np.asarray(particles.whitened))
    values = np.empty(latent.means.shape[:2])
    size = _VALUES_AT_ONCE // int(np.prod([latent.means.shape[0], *latent.means.shape[2:]]))
    for part in host_blocks(len(latent.deviation), size):
        likelihood = target.likelihood.at_rows(part)
        means, deviation = latent.means[:, part], latent.deviation[part]
        values[:, part] = likelihood.log_predictive_density(target.y[part], means, deviation)
    if target.weights is None:
        return values
    # The rows of a sample count here as they did in the source, and not for those that they stand for.
    counts = np.asarray(target.weights) / (1.0 if target.stream is None else float(target.stream.factor))
    return values * counts


def _given_earlier(target: Target, rows: Neighborhood, w: Float[np.ndarray, "J M"]) -> Latent:
    """f at the data given w and the neighbours that the potential has."""
    x, y = np.asarray(target.x), np.asarray(target.y)
    if rows.is_all and isinstance(target.term, QuadraticTerm):
        given = rows.one_after_the_other(target.basis)
    else:
        index = earlier_rows(x, y, target.weights, np.asarray(rows.scales), rows.num_neighbors)
        given = rows.conditional(target.basis, x, Near(index, np.ones(index.shape)))
    return Latent(given.offset + w @ given.psi.T, np.sqrt(given.variance), np.asarray(target.basis.prior.variance(x)))
