r"""The posterior averaged over hyperparameters: one model for each draw of them, with equal weights.

p(f | y) = ∫ p(f | y, θ) p(θ | y) dθ ≈ Σ_k p(f | y, θ_k)/K
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count, check_key, is_traced
from kosambi._core.precision import public, with_fields
from kosambi._core.programs import split
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.posterior import _arviz
from kosambi.posterior._matheron import MatheronDraws
from kosambi.posterior.averaged_prediction import AveragedPrediction
from kosambi.posterior.certificate import Certificate
from kosambi.posterior.conditioning import log_density_of_more
from kosambi.posterior.posterior import Posterior
from kosambi.posterior.prediction import Prediction
from kosambi.priors import FunctionDraws
from kosambi.samplers import AbstractSampler, Report
from kosambi.samplers.base import warn_user
from kosambi.target import Target

if TYPE_CHECKING:
    from kosambi.learning import HyperparameterDraws


class AveragedDraws(FunctionDraws):
    """Functions drawn from several models, whose values are put one behind the other. See `FunctionDraws`.

    `parts` are the draws of each model, and `order` says where in the row of all of them a draw is.
    """

    parts: tuple[FunctionDraws, ...]  # type: ignore[assignment]
    order: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def num_draws(self) -> int:
        """J, the number of functions."""
        return len(self.order)

    @public
    def __getitem__(self, which: Any) -> AveragedDraws:
        wanted = np.asarray(self.order)[np.atleast_1d(np.arange(self.num_draws)[which])]
        ends = np.cumsum([len(part) for part in self.parts])
        owner = np.searchsorted(ends, wanted, side="right")
        place = wanted - (ends - [len(part) for part in self.parts])[owner]
        parts = tuple(self.parts[k][place[owner == k]] for k in np.unique(owner))
        order = np.empty(len(wanted), dtype=int)
        order[np.argsort(owner, kind="stable")] = np.arange(len(wanted))
        return AveragedDraws(np.zeros(()), parts, self.num_columns, self.num_latents, None, tuple(order.tolist()))

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, "J N *C"]:
        """The values of all draws at the rows of `x` (N, D), mean included."""
        return self._ordered([part(x) for part in self.parts])

    @public
    def centred(self, x: ArrayLike) -> Float[Array, "J N *C"]:
        """The values of all draws at the rows of `x` without the prior means."""
        return self._ordered([part.centred(x) for part in self.parts])

    def _ordered(self, values: list[Array]) -> Array:
        xp = jnp if is_traced(values) else np
        return xp.concatenate(values)[np.asarray(self.order)]


class AveragedPosterior(Posterior):
    """Functions given data, averaged over draws of the hyperparameters. `kosambi.average` makes it.

    Predictions, functions, and what is exported are those of the average. `target`, `prior`, `likelihood`, `basis` and
    `particles` are those of `point`, the model with the most probable hyperparameters, and so is `explained_variance`.

    Arguments:
        point: the posterior with the most probable hyperparameters.
        components: one posterior for each draw, with as many particles each.
        hyperparameters: their draws; None where they are from elsewhere.
    """

    def __init__(
        self,
        point: Posterior,
        components: tuple[Posterior, ...],
        hyperparameters: HyperparameterDraws | None = None,
    ) -> None:
        sizes = {component.num_particles for component in components}
        if len(sizes) != 1:
            raise InputError(f"`components` must be posteriors with as many draws each. Got {sorted(sizes)} draws.")
        super().__init__(point.target, point.particles, _report(point, components))
        self.selection = point.selection
        self.point = point
        """The posterior with the most probable hyperparameters, not averaged."""
        self.components = tuple(_sharing(point.target, component) for component in components)
        """The posterior of each draw of hyperparameters."""
        self.hyperparameters = hyperparameters
        """The draws of hyperparameters."""

    @property
    def num_particles(self) -> int:
        """J, the number of posterior draws, of all components."""
        return len(self.components) * self.components[0].num_particles

    @property
    def num_components(self) -> int:
        """How many normal distributions the predictive distribution of f at an input is a mixture of."""
        return sum(component.num_components for component in self.components)

    def functions(self, key: Key, **options: Any) -> FunctionDraws | MatheronDraws:
        """One function for each of the J particles: draw j is one of component j mod K; see `Posterior.functions`.

        Arguments:
            key: a JAX random key.
            options: those of `Posterior.functions`; only method="pathwise".
        """
        if options.get("method", "pathwise") != "pathwise":
            raise InputError('An average has functions by method="pathwise". Use `posterior.components` for others.')
        keys = jax.random.split(check_key(key), len(self.components))
        drawn = (part.functions(own, **options) for part, own in zip(self.components, keys, strict=True))
        parts = tuple(each for each in drawn if isinstance(each, FunctionDraws))
        number, size = len(parts), self.components[0].num_particles
        order = np.arange(number * size).reshape(number, size).T.ravel()
        columns = self.target.x.shape[1]
        return AveragedDraws(np.zeros(()), parts, columns, self.likelihood.num_latents, None, tuple(order.tolist()))

    def predict(self, x_new: ArrayLike, *, noise: ArrayLike | None = None) -> Prediction:
        """The distributions of f and of an observation at the rows of `x_new` (N, D); see `Posterior.predict`.

        Takes K times as long as that of one model, and holds K times as many numbers.
        """
        return AveragedPrediction(tuple(component.predict(x_new, noise=noise) for component in self.components))

    def condition(
        self,
        key: Key,
        x: ArrayLike,
        y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        sampler: str | AbstractSampler = "auto",
        num_particles: int | None = None,
        precision: str = "float64",
        progress: bool | None = None,
    ) -> AveragedPosterior:
        """The average given more rows, each model with its own hyperparameters as before; see `Posterior.condition`.

        The draws of hyperparameters stay those given the rows before, each with the same weight: equal to
        `kosambi.average` of all rows with the same draws. How many of them the new rows leave, by the density
        p(y' | y, θ_k) of these under each, is counted; where it is less than half, a `HyperparameterWarning` says so.

        Arguments:
            key: a JAX random key.
            x: (n, D), the inputs of the new rows.
            y: (n,), the observations there.
            weights: (n,), how often each counts; once when None.
            noise: (n,), the noise of each, where `Gaussian(noise=...)` was given one per observation.
            sampler: see `kosambi.sample`.
            num_particles: J of all models together; as many as there are when None.
            precision: "float64", "float32" or "tf32" for the steps of the sampler; see `sample`.
            progress: whether to show a progress line; None shows it on a terminal.
        """
        own = None if num_particles is None else -(-as_count("num_particles", num_particles) // len(self.components))
        key_point, *keys = split(check_key(key), len(self.components) + 1)
        rows, options = (x, y, weights, noise, sampler), {"precision": precision, "progress": progress}
        # Predictions are those of the components, so that a basis of the point estimate is nothing to warn of.
        point = self.point._conditioned(False, key_point, *rows, num_particles, options)
        pairs = zip(self.components, keys, strict=True)
        parts = tuple(part._conditioned(True, own_key, *rows, own, options) for part, own_key in pairs)
        found = AveragedPosterior(point, parts, self.hyperparameters)
        gains = [log_density_of_more(*pair) for pair in zip(self.components, parts, strict=True)]
        if any(gain is None for gain in gains):
            return found
        shares = np.exp(np.asarray(gains) - np.max(np.asarray(gains)))
        left = float(np.sum(shares) ** 2 / np.sum(np.square(shares)))
        if left < 0.5 * len(parts):
            note = (
                f"The new rows leave {left:.1f} of {len(parts)} draws of hyperparameters, which were drawn given the "
                "rows before. Learn hyperparameters again with all rows."
            )
            warn_user(note, HyperparameterWarning)
            if found.report is not None:
                found.report = dataclasses.replace(found.report, warnings=(*found.report.warnings, note))
        return found

    def log_predictive_density(
        self, x_new: ArrayLike, y_new: ArrayLike, *, noise: ArrayLike | None = None
    ) -> Float[Array, " N"]:
        """log p(y | data) of each new observation by itself, (N,), averaged over hyperparameters."""
        every = [part.log_predictive_density(x_new, y_new, noise=noise) for part in self.components]
        return np.logaddexp.reduce(np.stack(every), axis=0) - np.log(len(every))

    def draw_observations(
        self, key: Key, f: Float[Array, "S N *C"], which: Int[np.ndarray, " S"]
    ) -> Float[Array, "S N"]:
        """Observations given values of functions, each with the noise of its own model."""
        drawn = np.empty(np.shape(f)[:2])
        for k, own in enumerate(jax.random.split(check_key(key), len(self.components))):
            if len(rows := np.flatnonzero(np.asarray(which) % len(self.components) == k)):
                drawn[rows] = self.components[k].likelihood.draw(own, np.asarray(f)[rows])
        return drawn

    def observation_mean(self, f: Float[Array, "S N *C"], which: Int[np.ndarray, " S"]) -> Float[Array, "S N"]:
        """E[y | f] for values of functions, each with the parameters of its own model."""
        owner, found = np.asarray(which) % len(self.components), np.empty(np.shape(f)[:2])
        for k in np.unique(owner):
            found[owner == k] = self.components[k].likelihood.observation_mean(np.asarray(f)[owner == k])
        return found

    def certificate(self, *, num_nodes: int | None = None) -> Certificate:
        """The certificate of the component whose coordinates leave most of its prior variance unexplained.

        The divergence of the average is at most the mean of those of its components, of which this is about the
        largest; see `Posterior.certificate`.
        """
        return min(self.components, key=lambda component: component.explained_variance).certificate(num_nodes=num_nodes)

    def to_arviz(self, num_chains: int = 4, *, log_likelihood: bool = True) -> Any:
        """The particles for ArviZ, with the hyperparameters of each as variables; see `Posterior.to_arviz`.

        Coordinates u are those of each component's own basis, which have the same inducing points.
        """
        values = {} if self.hyperparameters is None else self.hyperparameters.values
        parts = [(component.target, component.particles) for component in self.components]
        return _arviz.to_arviz(parts, self.report, as_count("num_chains", num_chains), bool(log_likelihood), values)

    @property
    def log_evidence(self) -> NoReturn:
        """Not known for an average."""
        raise self._without("The log evidence", "log_evidence")

    def reweighted(self, key: Key, *, num_nodes: int | None = None) -> NoReturn:
        """Not for an average."""
        del key, num_nodes
        raise self._without("Reweighting", "reweighted(key)")

    def modes(self) -> NoReturn:
        """Not for an average."""
        raise self._without("A mode", "modes()")

    def some(self, chosen: Any) -> NoReturn:
        """Not for an average."""
        del chosen
        raise self._without("A choice of particles", "some(numbers)")

    def by_mode(self) -> NoReturn:
        """Not for an average."""
        raise self._without("A posterior for each mode", "by_mode()")

    def _without(self, what: str, call: str) -> InputError:
        return InputError(
            f"{what} is that of one model, and this posterior is averaged over {len(self.components)} draws of "
            f"hyperparameters. Use `posterior.point.{call}`, of the most probable ones, or `posterior.components`."
        )

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, averaged over {len(self.components)} draws of hyperparameters)"


def _sharing(target: Target, component: Posterior) -> Posterior:
    """The component with the very arrays of the data that `target` has, which memory and files then hold once."""
    own = component.target
    same = {
        name: getattr(target, name)
        for name in ("x", "y", "weights")
        if getattr(own, name) is not None and np.array_equal(getattr(own, name), getattr(target, name))
    }
    # A copy, because nothing that is given is changed.
    found = copy.copy(component)
    found.target = with_fields(own, **same)
    return found


def _report(point: Posterior, components: tuple[Posterior, ...]) -> Report | None:
    """What happened in all runs: the worst R̂, all steps and draws; of the point estimate what cannot be summed."""
    runs = [component.report for component in components if component.report is not None]
    if point.report is None or not runs:
        return point.report
    unsettled = sum(not run.converged for run in runs)
    notes = list(dict.fromkeys(text for run in (point.report, *runs) for text in run.warnings))
    if unsettled:
        notes.append(f"{unsettled} of {len(runs)} models with drawn hyperparameters have not converged.")
    rates = [np.asarray(run.acceptance_by_particle) for run in runs]
    return dataclasses.replace(
        point.report,
        acceptance_by_particle=np.stack(rates, axis=1).ravel() if len({*map(len, rates)}) == 1 else np.empty(0),
        converged=not unsettled,
        r_hat=max(run.r_hat for run in runs),
        ess=sum(run.ess for run in runs),
        acceptance=float(np.mean([run.acceptance for run in runs])),
        gradient_evaluations=sum(run.gradient_evaluations for run in (point.report, *runs)),
        seconds=sum(run.seconds for run in (point.report, *runs)),
        compile_seconds=sum(run.compile_seconds for run in (point.report, *runs)),
        warnings=tuple(notes),
    )
