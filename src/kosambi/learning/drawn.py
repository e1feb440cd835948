"""Draws of hyperparameters, each a model of its own, and how far they can be trusted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from kosambi._core.html import table_html
from kosambi._core.parameters import parameters
from kosambi._core.precision import at_rest
from kosambi.learning.families import without_choice
from kosambi.learning.hyper_draws import BATCH, MOST_ROUNDS, NUM_CHAINS, R_HAT_LIMIT, Chains, draw_chains
from kosambi.learning.layout import Model, rebuilt
from kosambi.learning.search import minimise
from kosambi.learning.task import AbstractStrategy, Found
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

EXPENSIVE = 1.5e8
"""Cubed rows, of all latent functions and blocks, from which an evaluation takes long, and rounds are fewer."""
FEWEST_ROUNDS = 24
"""Transitions of each chain, at least, where an evaluation takes long."""
SPARE = 2
"""Effective draws for each that is kept, so that the smallest number of them, itself an estimate, is not too few."""
STUCK, WORTH = 0.1, 0.25
"""Acceptance below which chains hardly move, and effective draws, as a part of those wanted, that are too few."""


@dataclasses.dataclass(frozen=True, eq=False)
class HyperparameterDraws:
    """K models whose hyperparameters are draws from p(θ | y), the posterior given the data.

    `kosambi.average(key, draws, x, y)` averages over them.
    """

    priors: tuple[AbstractPrior, ...]
    """K priors over functions."""
    likelihoods: tuple[AbstractLikelihood, ...]
    """The likelihood that belongs to each."""
    point: tuple[AbstractPrior, AbstractLikelihood]
    """The most probable ones, which `fit_hyperparameters` returns."""
    values: dict[str, Float[np.ndarray, "K ..."]]
    """The parameters that were learned, by name, in their own units."""
    log_density: Float[np.ndarray, " K"]
    """log p(θ | y) up to a constant, in the free numbers."""
    r_hat: float
    """The largest R̂ over the free numbers, of four chains cut into halves."""
    ess: float
    """The smallest number of effective draws, of all that these were taken from."""
    acceptance: float
    """The mean acceptance rate."""
    evaluations: int
    """Evaluations of the evidence, alone or with its gradient."""
    failures: int
    """Of these, such as were not finite or beyond the bounds; none of them was kept."""
    warnings: tuple[str, ...] = ()
    """What the user was warned of."""

    def __len__(self) -> int:
        return len(self.priors)

    @property
    def converged(self) -> bool:
        """Whether the chains agree, and move."""
        return self.r_hat <= R_HAT_LIMIT and self.acceptance >= STUCK

    def quantile(self, q: float) -> dict[str, Float[np.ndarray, "..."]]:
        """The q-quantile of each parameter.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(0.0, 10.0, 40)[:, None]
        >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
        >>> gaussian = ko.likelihoods.Gaussian()
        >>> report = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, y, num_draws=20)[2]
        >>> low, high = (report.draws.quantile(q)["likelihood.noise"] for q in (0.1, 0.9))
        >>> bool(0.04 < low < high < 0.2)
        True
        """
        return {name: np.asarray(np.quantile(values, q, axis=0)) for name, values in self.values.items()}

    def with_models(
        self,
        models: Sequence[tuple[AbstractPrior, AbstractLikelihood]],
        point: tuple[AbstractPrior, AbstractLikelihood],
    ) -> HyperparameterDraws:
        """The same draws with their models, and the most probable one, in other units."""
        priors, likelihoods = zip(*models, strict=True)
        rescaled = [Model(prior.kernel, prior.mean, own) for prior, own in models]
        values = self.values | _values(rescaled, list(self.values))
        return dataclasses.replace(self, priors=priors, likelihoods=likelihoods, point=point, values=values)

    def __repr__(self) -> str:
        return f"HyperparameterDraws({len(self)} draws of {', '.join(self.values)}, R-hat {self.r_hat:.3f})"

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        lines = [f"{len(self)} draws of hyperparameters: {state}, R-hat {self.r_hat:.3f}, {self._worth}"]
        lines += [f"  {name} = {middle} ({low} to {high})" for name, middle, low, high in self._rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(name, middle, f"{low} to {high}") for name, middle, low, high in self._rows]
        return table_html(str(self).splitlines()[0], rows, head=("parameter", "median", "90 %"), notes=self.warnings)

    @property
    def _worth(self) -> str:
        return f"{self.ess:.0f} effective draws, {self.evaluations} evaluations ({self.failures} in vain)"

    @property
    def _rows(self) -> list[tuple[str, str, str, str]]:
        levels = [self.quantile(q) for q in (0.5, 0.05, 0.95)]
        shown = [{name: _shown(value) for name, value in level.items()} for level in levels]
        return [(name, shown[0][name], shown[1][name], shown[2][name]) for name in self.values]


def drawn(strategy: AbstractStrategy, found: Found, number: int, together: int) -> HyperparameterDraws:
    """`number` draws from the density that the strategy maximises, around the maximum that it has found.

    `together` is the number of rows that this density is of.
    """
    task, bounds = strategy.task, found.bounds
    assert bounds is not None
    objective, size = strategy.density(found)
    vector = task.layout.vector(found.model)
    limits = bounds.lower, bounds.upper, task.max_iterations
    # Where the stages have ended may be the maximum of other rows, or of another objective.
    record = task.record.beside()
    mode = minimise(objective(), vector, *limits, record, bounds.scale, task.stop)
    task.record.absorb(record)
    if task.stop.happened:
        raise KeyboardInterrupt
    # As many states as draws, at least.
    rounds = max(_most_rounds(size), -(-number // NUM_CHAINS))
    chains = draw_chains(objective, mode.vector, bounds, task.generator, SPARE * number, task.show, rounds)
    vectors, densities = chains.thinned(number)
    models = [_concrete(task.layout.model(each, found.model)) for each in vectors]
    learned = [parameter.name for group in task.layout.groups for parameter in group]
    return HyperparameterDraws(
        priors=tuple(rebuilt(_plain(task.prior), model) for model in models),
        likelihoods=tuple(model.likelihood for model in models),
        point=_point(strategy, found),
        values=_values(models, learned),
        log_density=densities,
        r_hat=chains.r_hat,
        ess=chains.ess,
        acceptance=chains.acceptance,
        evaluations=chains.evaluations,
        failures=chains.failures,
        warnings=(*_doubts(chains, number), *_few_rows(together, len(task.counting))),
    )


def _most_rounds(size: float) -> int:
    """Transitions of each chain, fewer where `size`, the cubed rows of an evaluation, is large; whole batches."""
    wanted = MOST_ROUNDS * min(1.0, EXPENSIVE / size) ** (1.0 / 3.0)
    return max(FEWEST_ROUNDS, round(wanted / BATCH) * BATCH)


def _values(models: Sequence[Model], names: Sequence[str]) -> dict[str, Float[np.ndarray, "K ..."]]:
    named = [{p.name: np.asarray(p.value) for p in parameters(**model._asdict())} for model in models]
    # In other units a kernel without a variance has become a product, whose parts have other names.
    return {name: np.stack([each[name] for each in named]) for name in names if name in named[0]}


def _doubts(chains: Chains, number: int) -> tuple[str, ...]:
    if chains.acceptance < STUCK:
        return (
            f"{number} draws of hyperparameters come from chains that hardly move (acceptance "
            f"{chains.acceptance:.2f}): the evidence cannot be computed, or is far from smooth, around its maximum. "
            "Look at the units of x and y and for rows that are copies of each other.",
        )
    if not chains.converged:
        return (
            f"{number} draws of hyperparameters come from chains that do not agree (R-hat {chains.r_hat:.2f}, "
            f"acceptance {chains.acceptance:.2f}): the data may leave several explanations, such as a short and a long "
            "lengthscale, between which chains hardly pass. Give priors that rule out what you know to be wrong, or "
            "compare models.",
        )
    if chains.ess < WORTH * number:
        return (f"{number} draws of hyperparameters are worth {chains.ess:.0f} independent ones. Ask for fewer.",)
    return ()


def _few_rows(together: int, num_rows: int) -> tuple[str, ...]:
    if together >= num_rows:
        return ()
    return (
        f"Draws of hyperparameters come from {together} of {num_rows} rows, those that are learned from together: they "
        "are spread out more than all rows would leave them. With so many rows the most probable ones are enough.",
    )


def _point(strategy: AbstractStrategy, found: Found) -> tuple[AbstractPrior, AbstractLikelihood]:
    model = _concrete(found.model)
    return rebuilt(_plain(strategy.task.prior), model), model.likelihood


def _plain(prior: AbstractPrior) -> AbstractPrior:
    return rebuilt(prior, Model(without_choice(prior.kernel), prior.mean, None))  # type: ignore[arg-type]


def _concrete(model: Model) -> Model:
    return at_rest(model._replace(kernel=without_choice(model.kernel)))


def _shown(values: np.ndarray) -> str:
    return np.array2string(np.asarray(values), precision=4, threshold=6, formatter={"float": "{:.4g}".format})
