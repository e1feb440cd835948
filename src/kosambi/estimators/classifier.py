"""`ProjectedLangevinClassifier`: a posterior over functions for two classes or more."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from kosambi._core.checks import as_level
from kosambi.errors import InputError
from kosambi.estimators._base import AbstractEstimator
from kosambi.estimators._flows import RowModel, SourceModels, check_for_mesh, fit_rows, fit_source
from kosambi.estimators._inputs import checked_weights, validated
from kosambi.estimators._more import refuse_source
from kosambi.estimators._source import SourceModel, is_source
from kosambi.kernels import AbstractKernel
from kosambi.learning.hyperpriors import AbstractHyperprior
from kosambi.likelihoods import AbstractLikelihood, Bernoulli, Categorical
from kosambi.posterior import AveragedPrediction, Prediction
from kosambi.samplers import AbstractSampler
from kosambi.sources import Survey

# Two to this power are the values of the residual for the intervals of probabilities of several classes.
_RESIDUAL_POWER = 6


class ProjectedLangevinClassifier(ClassifierMixin, AbstractEstimator):
    """Bayesian classification with functions drawn from their posterior.

    Two classes have one function, whose logistic transform is the probability of the second; C classes have C
    functions and their softmax. Labels may be numbers or strings. Everything else is as in
    `ProjectedLangevinRegressor`.

    Arguments:
        likelihood: "auto", or None, which is the same: `Bernoulli` for two classes and `Categorical` for more; or an
            object from `kosambi.likelihoods` for as many labels as there are, such as `Bernoulli(link="probit")`, or
            `Ordinal(cut_points)` for classes whose sorted labels are a scale.
        kernel: in the units of the columns; its parameters are where the search for better ones begins. A name,
            "matern32", "matern52" or "squared_exponential" ("rbf"), is one with a lengthscale for each column; None is
            the one of these three that the evidence of some rows prefers.
        n_inducing: M: a number, and zero to leave everything to `n_neighbors`; "auto", or None, which is the same, for
            as many as predictions can use, and for more than two classes as many as explain 99.9 % of the prior
            variance at the data, at most 4√N; "all" for every distinct row.
        n_neighbors: m, how many near rows inform what the points leave open at an input; 0 for none; "auto", or None,
            for none up to 5000 rows, and as many as take some minutes at most above, beside 512 points (64
            at least for very many rows).
        n_samples: J, how many functions are drawn.
        hyperparameters: "evidence" for the most probable ones; "average" for predictions averaged over draws of them
            from their posterior, which keeps intervals honest where rows are few; "auto" for that average where it pays
            (up to 1000 rows with Gaussian noise, 200 otherwise, without neighbours) and the most probable ones
            elsewhere; "paper" (an exact Gaussian process, for comparison); None to keep them.
        sampler: see `kosambi.sample`.
        potential: "auto", "projected", "optimal" or "neighbors"; see `kosambi.Target`.
        warm_start: whether the next `fit` begins from the last one: from its hyperparameters, without a choice between
            families of kernels, and from its draws. A kernel or a likelihood of another sort that was set since is
            what it begins from instead. For rows that come later without a new search, see `partial_fit`.
        standardize, kernel_units, freeze, tie, priors: as in `ProjectedLangevinRegressor`.
        progress: whether to show a progress line; None shows it on a terminal.
        random_state: a seed, a generator or None.

    After `fit`: `classes_`, and what `ProjectedLangevinRegressor` has.

    >>> import numpy as np
    >>> from kosambi import ProjectedLangevinClassifier
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> noise = np.random.default_rng(1).logistic(size=80)
    >>> y = np.where(3.0 * np.sin(2.0 * x[:, 0]) + noise > 0, "up", "down")
    >>> model = ProjectedLangevinClassifier().fit(x, y)
    >>> model.predict([[0.8, 0.0], [-0.8, 0.0]])
    array(['up', 'down'], dtype='<U4')
    >>> model.predict_proba([[1.0, 1.0]]).sum(axis=1)
    array([1.])
    """

    def __init__(
        self,
        likelihood: str | AbstractLikelihood | AbstractKernel | None = "auto",
        kernel: AbstractKernel | str | None = None,
        *,
        n_inducing: int | str | None = "auto",
        n_neighbors: int | str | None = "auto",
        n_samples: int = 100,
        hyperparameters: str | None = "auto",
        sampler: str | AbstractSampler = "auto",
        potential: str = "auto",
        warm_start: bool = False,
        standardize: bool = True,
        kernel_units: str = "input",
        freeze: str | Sequence[str] = (),
        tie: Sequence[Sequence[str]] = (),
        priors: Mapping[str, AbstractHyperprior] | None = None,
        progress: bool | None = None,
        random_state: Any = 0,
    ) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.n_neighbors = n_neighbors
        self.n_samples = n_samples
        self.hyperparameters = hyperparameters
        self.sampler = sampler
        self.potential = potential
        self.warm_start = warm_start
        self.standardize = standardize
        self.kernel_units = kernel_units
        self.freeze = freeze
        self.tie = tie
        self.priors = priors
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        max_memory: int | str | None = None,
        checkpoint: Any = None,
        mesh: Any = None,
    ) -> ProjectedLangevinClassifier:
        """Learn from rows of X (n, D) and labels y (n,), each counting `sample_weight` times.

        X may be a source from `kosambi.sources`, as for `ProjectedLangevinRegressor`, whose y has a number for each
        class; so are `checkpoint` and `mesh`.
        """
        if is_source(X, y, sample_weight):
            models = SourceModels(lambda found: self._source_model(X.labels, found), self._row_model)
            check_for_mesh(mesh, self.sampler, X=X)
            fit_source(self, X, max_memory, None, models, checkpoint)
            return self
        return self._fit_labels(X, y, sample_weight, None, checkpoint, max_memory, mesh)

    def _fit_labels(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        classes: Any,
        checkpoint: Any = None,
        max_memory: Any = None,
        mesh: Any = None,
    ) -> ProjectedLangevinClassifier:
        """Learn from labels, of which there are `classes`, or those in y when None."""
        x, y = validated(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, x)
        y, used = column_or_1d(y), weights > 0
        if not used.all():
            x, y, weights = x[used], y[used], weights[used]
        # A label all of whose rows weigh nothing is not among the data.
        self.classes_ = np.unique(y if classes is None else column_or_1d(classes))
        number = len(self.classes_)
        if number < 2:
            raise InputError(
                f"`{'y' if classes is None else 'classes'}` has one class only, {self.classes_.tolist()[0]!r}. A "
                "classifier needs two at least; leave out the model, or add rows of another class."
            )
        model = RowModel(self._numbers(y), self._likelihood(number), (0.0, 1.0))
        fit_rows(self, x, weights, model, checkpoint, max_memory, mesh)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> ProjectedLangevinClassifier:
        """Add rows of X (n, D) and labels y (n,) to those seen; the first call is `fit`.

        Hyperparameters, standardisation and inducing points stay those of the last `fit`; the sampler runs on all rows
        and begins at the present draws. See `ProjectedLangevinRegressor.partial_fit`.

        Arguments:
            X: (n, D), one row at least.
            y: (n,).
            classes: all labels that will ever come, which the first call needs unless its y has them all.
            sample_weight: (n,), how often each counts.
        """
        refuse_source(X)
        if not hasattr(self, "posterior_"):
            return self._fit_labels(X, y, sample_weight, classes)
        if classes is not None and not np.array_equal(np.unique(column_or_1d(classes)), self.classes_):
            raise InputError(
                f"`classes` are {np.unique(classes).tolist()}, but were {self.classes_.tolist()} at the first call. "
                "Leave them out, or fit anew with all of them."
            )
        x, y = validated(self, X, y, reset=False, dtype=np.float64)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, x)
        self._add_rows(x, self._numbers(column_or_1d(y)), weights)
        return self

    def _numbers(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        """The places of labels among `classes_`."""
        unknown = ~np.isin(y, self.classes_)
        if np.any(unknown):
            raise InputError(
                f"`y` has the label {y[unknown].tolist()[0]!r}, which is none of the classes {self.classes_.tolist()}. "
                "Name all of them with `classes` at the first call of `partial_fit`."
            )
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def _source_model(self, labels: tuple[str, ...] | None, found: Survey) -> SourceModel:
        values = found.values
        if values is None or len(values) < 2:
            what = "one class only" if values is not None else "more different values than classes can be"
            raise InputError(f"`y` of the source has {what}. A classifier needs some classes, two at least.")
        if np.any(is_part := values != np.round(values)):
            raise InputError(
                f"`y` of the source has {values[is_part][0]:g}, and classes are whole numbers. Number them, or use "
                "`ProjectedLangevinRegressor` for what is measured."
            )
        numbers = values.astype(np.int64)
        self.classes_ = numbers if labels is None else np.array(labels)[numbers]
        return SourceModel(self._likelihood(len(values)), (0.0, 1.0), values)

    def _row_model(self, found: Survey, y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> RowModel:
        """What rows of a source are of that are held in memory."""
        del weights
        values = found.values
        assert values is not None
        return RowModel(np.searchsorted(values, y).astype(np.float64), self._likelihood(len(values)), (0.0, 1.0))

    def _likelihood(self, number: int) -> AbstractLikelihood:
        """The likelihood of `number` classes."""
        given = self.likelihood
        if isinstance(given, AbstractKernel):
            if self.kernel is not None:
                raise InputError(f"`likelihood` must be a likelihood. Got a kernel, {given!r}, beside `kernel`.")
            warnings.warn(
                "The first argument of `ProjectedLangevinClassifier` is the likelihood, as that of "
                "`ProjectedLangevinRegressor`. Write `kernel=...`; a kernel in its place will be refused.",
                DeprecationWarning,
                stacklevel=3,
            )
            given = "auto"
        if given is None or (isinstance(given, str) and given == "auto"):
            return Bernoulli() if number == 2 else Categorical(number)
        if not isinstance(given, AbstractLikelihood) or given.num_labels is None:
            raise InputError(
                '`likelihood` must be "auto" or a likelihood of labels from `kosambi.likelihoods`: `Bernoulli`, '
                f"`Categorical` or `Ordinal`. Got {given!r}."
            )
        if given.num_labels != number:
            raise InputError(
                f"`likelihood` is for {given.num_labels} labels, but y has {number} classes. Got {given!r}. Leave it "
                "out, or give one for as many."
            )
        return given

    @property
    def _kernel(self) -> Any:
        # A kernel in the first place, where it was before the likelihood; `fit` warns of it.
        return self.likelihood if isinstance(self.likelihood, AbstractKernel) else self.kernel

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n C"]:
        """The probability of each class, in the order of `classes_`."""
        return self._in_blocks(X, _probabilities)

    def predict_log_proba(self, X: Any) -> Float[np.ndarray, "n C"]:
        """Its logarithm."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class at each row, (n,)."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[likeliest]

    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """A credible interval (lower, upper) for the probability of each class, each (n, C).

        The probability of a class lies between them with posterior probability `coverage`.
        """
        both = self._in_blocks(X, lambda p: _probability_interval(p, coverage), axis=1)
        return both[0], both[1]

    def predict_log_density(self, X: Any, y: Any) -> Float[np.ndarray, " n"]:
        """The log probability of the label y (n,) at each row; −∞ for a label that was not in the data."""
        check_is_fitted(self, "posterior_")
        _, y = validated(self, X, y, reset=False, dtype=np.float64)
        table = self.predict_log_proba(X)
        number = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        known = self.classes_[number] == y
        return np.where(known, table[np.arange(len(y)), number], -np.inf)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Labels drawn at the rows of X: (n, n_samples); each column goes along one function."""
        return self.classes_[self._observations(X, n_samples, random_state).T.astype(int)]


def _probabilities(prediction: Prediction) -> Float[np.ndarray, "n C"]:
    table = np.asarray(prediction.probability)
    if table.ndim == 1:
        return np.column_stack([1.0 - table, table])
    # Quadrature leaves sums that are off in the last digits.
    return table / table.sum(axis=1, keepdims=True)


def _probability_interval(prediction: Prediction, coverage: float) -> Float[np.ndarray, "2 n C"]:
    """Quantiles of the probabilities of the classes over the posterior of f."""
    likelihood = prediction.likelihood
    if likelihood.num_labels == 2 and likelihood.num_latents == 1:
        # One increasing function of f, so that quantiles go over into quantiles.
        low, high = (np.asarray(likelihood.observation_mean(end)) for end in prediction.latent_interval(coverage))
        return np.stack([np.column_stack([1.0 - high, low]), np.column_stack([1.0 - low, high])])
    tail = 0.5 * (1.0 - as_level("coverage", coverage))
    models = prediction.parts if isinstance(prediction, AveragedPrediction) else (prediction,)
    latents = prediction.component_means.shape[2:]
    # The same few values of the residual for every draw and every row.
    noise = _normal_points(_RESIDUAL_POWER, latents)[:, None]
    parts = []
    for point in range(prediction.num_points):
        shares = []
        for model in models:
            f = model.component_means[:, point] + model.component_deviation[point] * noise
            shares.append(_shares(model.likelihood, f.reshape(-1, *latents)))
        parts.append(np.quantile(np.concatenate(shares), [tail, 1.0 - tail], axis=0))
    return np.stack(parts, axis=1)


def _normal_points(power: int, shape: tuple[int, ...]) -> Float[np.ndarray, " S *C"]:
    """2^`power` points that stand for a standard normal distribution: Sobol's, evenly spread and not random."""
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol  # here, because it takes longer to import than the rest

    # In the middle of their cells, since the first would lie at minus infinity.
    uniform = Sobol(int(np.prod(shape)), scramble=False).random_base2(power) + 0.5 ** (power + 1)
    return ndtri(uniform).reshape(-1, *shape)


def _shares(likelihood: AbstractLikelihood, f: Float[np.ndarray, " S *C"]) -> Float[np.ndarray, "S L"]:
    """The probability of each label given f."""
    labels = range(likelihood.num_labels or 0)
    return np.exp(np.stack([likelihood.log_density(np.full(len(f), float(label)), f) for label in labels], axis=-1))
