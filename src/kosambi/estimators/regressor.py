"""`ProjectedLangevinRegressor`: a posterior over functions for numbers and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from kosambi.errors import InputError
from kosambi.estimators._base import COVARIANCE, AbstractEstimator, random_key
from kosambi.estimators._flows import RowModel, SourceModels, check_for_mesh, fit_rows, fit_source
from kosambi.estimators._inputs import check_units, checked_weights, for_equal_observations, validated
from kosambi.estimators._models import as_likelihood, in_units
from kosambi.estimators._more import refuse_source
from kosambi.estimators._rows import has_covariance, latent_covariance, location_and_scale
from kosambi.estimators._several import SeveralOutputs, several
from kosambi.estimators._source import SourceModel, is_source
from kosambi.estimators._units import standardizes_target
from kosambi.kernels import AbstractKernel
from kosambi.learning.hyperpriors import AbstractHyperprior
from kosambi.likelihoods import AbstractLikelihood
from kosambi.outputs.stacking import is_matrix
from kosambi.posterior import Prediction
from kosambi.samplers import AbstractSampler
from kosambi.sources import Survey


class ProjectedLangevinRegressor(RegressorMixin, SeveralOutputs, AbstractEstimator):
    """Bayesian regression with functions drawn from their posterior.

    Inputs are standardised, the hyperparameters learned by the evidence, as many inducing points taken as predictions
    can use, and draws made by the sampler that suits the likelihood. A Gaussian likelihood has closed forms throughout.
    A fit does not depend on the order of the rows, and rows that occur twice are the same as rows of weight two.

    With y of shape (n, P) the P outputs are one model, a linear model of coregionalisation: predictions of an output
    use the observations of the others, and are correlated. Cells of y that are NaN were not observed. That is for
    Gaussian noise, one for each output, without neighbours, and with the most probable hyperparameters.

    Arguments:
        likelihood: "gaussian", "student_t", "laplace" (outliers), "heteroscedastic" (noise that varies), "poisson",
            "negative_binomial", "zero_inflated_poisson" (counts), "gamma", "exponential" (positive numbers), or an
            object from `kosambi.likelihoods`, whose parameters are in the units of y and are where the search for
            better ones begins.
        kernel: in the units of the columns, and its variance in squared units of y for likelihoods of real numbers; its
            parameters are where the search begins. A name, "matern32", "matern52" or "squared_exponential" ("rbf"), is
            one with a lengthscale for each column; None is the one of these three that the evidence of some rows
            prefers.
        n_inducing: M: a number, and zero to leave everything to `n_neighbors`; "auto", or None, which is the same, for
            as many as predictions can use; "all" for every distinct row, which above 2000 rows with Gaussian noise is
            the full process without points.
        n_neighbors: m, how many near rows inform what the points leave open at an input; 0 for none; "auto", or None,
            for none up to 5000 rows (8000 with Gaussian noise, where all rows are taken if 512 points are not enough),
            and as many as take some minutes at most above, beside 512 points (64 at least for very many rows of other
            likelihoods; none on an accelerator, whose memory holds all pairs of rows).
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
        standardize: whether inputs and real-valued y are standardised where that changes no meaning: with a kernel by
            name, or none. False takes both as they are: the prior mean of a real-valued y is then learned, and zero
            where it is frozen or hyperparameters are kept, so that the model is that of `infer(kernel, likelihood, X,
            y)`.
        kernel_units: "input", or "standardized" for a kernel of standardised columns and y, which was the meaning of
            every kernel before.
        freeze: hyperparameters that keep the values they were given, by name: "kernel.variance", "likelihood.noise",
            "kernel.*.period", "kernel" for all of it.
        tie: groups of hyperparameters with one value, [["kernel.0.lengthscale", "kernel.1.lengthscale"]].
        priors: what is known of hyperparameters, by name, in the units of the columns and of y: `{"likelihood.noise":
            kosambi.hyperpriors.LogNormal(0.1, 0.5)}`. All three are those of `kosambi.fit_hyperparameters`.
        progress: whether to show a progress line; None shows it on a terminal.
        random_state: a seed, a generator or None.

    After `fit`: `posterior_` (a `kosambi.Posterior` of `transform_inputs(X)`, and of y in its units), `kernel_` (in the
    units of the columns), `report_` (how the draws were made), `fit_report_` (how hyperparameters were learned, from
    standardised data), `certificate_` (how good the approximation is), `x_mean_`, `x_scale_`, `n_features_in_`,
    `feature_names_in_`, `n_outputs_` (P). With several outputs `posterior_` is of standardised outputs, whose number is
    the last input column, with `y_mean_` and `y_scale_` their units.

    >>> import numpy as np
    >>> from kosambi import ProjectedLangevinRegressor
    >>> x = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y = 10.0 + 3.0 * np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = ProjectedLangevinRegressor().fit(x, y)
    >>> mean, sd = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - 13.0) < 0.2), bool(0.05 < sd[0] < 0.2)
    (True, True)
    """

    def __init__(
        self,
        likelihood: str | AbstractLikelihood = "gaussian",
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
    ) -> ProjectedLangevinRegressor:
        """Learn from rows of X (n, D) and y (n,), or (n, P) for P outputs, each counting `sample_weight` times.

        X may be a source from `kosambi.sources`, which has y and weights. `max_memory`, bytes or text such as "2GB", is
        what the process may take, half of the machine's memory when None. Rows that fit, with all that a fit makes of
        them, are held and treated as arrays are. Others, and those of a fit with as many inducing points as were asked
        for, are read in blocks: there are no neighbours, a sample of the rows is what hyperparameters are learned from,
        and the posterior is that of all rows. `report_.stream` says which. With `max_memory` it is the same for arrays.

        A weight multiplies the log density of its row: two stands for a row that was observed twice. Where
        hyperparameters of a noise in the units of y are learned, weights above one count as one, as do copies of a row,
        unless y is rounded coarsely: observations that agree to the last digit would say that there is no noise.

        `checkpoint`, a folder or a `kosambi.Checkpoint`, is where the fit writes once a minute what it has found. After
        a crash, a kill or Ctrl-C the same call goes on from there, and ends with the same numbers, bit for bit on the
        same machine. The folder is removed at the end; one of another fit is refused. So it is with a source, whose
        passes go on where they were; of several processes each has a folder of its own inside.

        `mesh`, from `kosambi.parallel.mesh`, has the devices that share rows and particles of the posterior; see
        `kosambi.infer`. Hyperparameters are learned on one of them. Rows of a source, `max_memory` and `checkpoint`
        cannot be had with it.
        """
        likelihood = as_likelihood(self.likelihood)
        if is_source(X, y, sample_weight):
            self._check_likelihood(likelihood)
            models = SourceModels(
                lambda found: self._source_model(likelihood, found),
                lambda _, y, weights: self._row_model(likelihood, y, weights),
            )
            check_for_mesh(mesh, self.sampler, X=X)
            fit_source(self, X, max_memory, likelihood.check, models, checkpoint)
            self._forget_outputs()
            return self
        if is_matrix(y):
            if max_memory is not None:
                raise InputError("`max_memory` is for one output. Leave it out, or fit one column of y at a time.")
            check_for_mesh(mesh, self.sampler)
            self._fit_outputs(X, y, sample_weight, checkpoint, mesh)
            return self
        x, y = validated(self, X, y, dtype=np.float64, ensure_min_samples=2, y_numeric=True)
        weights = checked_weights(sample_weight, x)
        self._check_likelihood(likelihood)
        model = self._row_model(likelihood, np.asarray(likelihood.check(y)), weights)
        fit_rows(self, x, weights, model, checkpoint, max_memory, mesh)
        self._forget_outputs()
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> ProjectedLangevinRegressor:
        """Add rows of X (n, D) and y (n,) to those seen; the first call is `fit`.

        Hyperparameters, standardisation and inducing points stay those of the last `fit`, and the posterior is that of
        all rows: `posterior_.condition`. With Gaussian noise that is a closed form. Rows that the points know little
        of, and draws of hyperparameters that new rows speak against, are warned of; call `fit` with all rows then.

        Arguments:
            X: (n, D), one row at least.
            y: (n,).
            sample_weight: (n,), how often each counts.
        """
        refuse_source(X)
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight)
        if self.n_outputs_ > 1 or is_matrix(y):
            raise InputError("`partial_fit` is for one output. Call `fit` with all rows.")
        x, y = validated(self, X, y, reset=False, dtype=np.float64, y_numeric=True)
        weights = checked_weights(sample_weight, x)
        self._add_rows(x, np.asarray(self.posterior_.likelihood.check(y)), weights)
        return self

    def _row_model(
        self, likelihood: AbstractLikelihood, y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
    ) -> RowModel:
        """What rows in memory are of."""
        used = slice(None) if np.all(weights > 0) else weights > 0
        likelihood = for_equal_observations(likelihood, y[used])
        units = (0.0, 1.0)
        if standardizes_target(self, likelihood):
            location, scale = location_and_scale(y[used], weights[used])
            units = (float(location), float(scale))
            check_units(y, units[1])
        return RowModel(y, self._in_standard_units(likelihood, units), units)

    def _source_model(self, likelihood: AbstractLikelihood, found: Survey) -> SourceModel:
        units = (found.y_mean, found.y_scale) if standardizes_target(self, likelihood) else (0.0, 1.0)
        return SourceModel(self._in_standard_units(likelihood, units), units)

    def _in_standard_units(self, likelihood: AbstractLikelihood, units: tuple[float, float]) -> AbstractLikelihood:
        """The likelihood of standardised y: parameters of one that was given were for y as it is."""
        if units == (0.0, 1.0) or not isinstance(self.likelihood, AbstractLikelihood):
            return likelihood
        return in_units(likelihood, -units[0] / units[1], 1.0 / units[1]) or likelihood

    @staticmethod
    def _check_likelihood(likelihood: AbstractLikelihood) -> None:
        if likelihood.num_labels is not None:
            raise InputError(
                f"`likelihood` {type(likelihood).__name__} is for labels. Use `ProjectedLangevinClassifier`."
            )
        if likelihood.num_rows is not None:
            raise InputError(
                "`likelihood` has one noise for each observation, but a fit puts rows in an order of its own. Use "
                "`sample_weight`, or `kosambi.infer`."
            )

    @several
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The mean of an observation at each row, (n,); with its standard deviation, or covariances (n, n).

        With P outputs (n, P), and (n, P) or (n, P, P): covariances between the outputs of a row. All include
        the noise. Of a distribution without a mean, such as Student's with few degrees of freedom, it is
        the location of its latent function.
        """
        if return_std and return_cov:
            raise InputError("`return_std` and `return_cov` cannot both be asked for. Take the root of the diagonal.")
        if return_cov:
            return self._with_covariance(X)
        if return_std:
            both = self._in_blocks(X, lambda p: np.stack([_mean(p), _deviation(p)]), axis=1)
            return both[0], both[1]
        return self._in_blocks(X, _mean)

    @several
    def predict_interval(self, X: Any, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper), each (n,), or (n, P): an observation lies between them with probability `coverage`."""
        both = self._in_blocks(X, lambda p: np.stack(p.interval(coverage)), axis=1)
        return both[0], both[1]

    @several
    def predict_quantile(self, X: Any, q: Any) -> np.ndarray:
        """The q-quantile of an observation at each row: (n,) for a number q, (Q, n) for Q of them; with P last."""
        return self._in_blocks(X, lambda p: p.quantile(q), axis=0 if np.ndim(q) == 0 else 1)

    @several
    def predict_log_density(self, X: Any, y: Any) -> Float[np.ndarray, " n"]:
        """The log density, or log probability of a count, of an observation y (n,) at each row, in the units of y.

        With P outputs the joint log density of a row of y (n, P), which uses their correlation; cells that are NaN are
        integrated out.
        """
        check_is_fitted(self, "posterior_")
        _, y = validated(self, X, y, reset=False, dtype=np.float64, y_numeric=True)
        return self._in_blocks(X, lambda prediction, part: prediction.log_density(part), y)

    @several
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Float[np.ndarray, "n *P S"]:
        """Observations drawn at the rows of X: (n, n_samples), or (n, P, n_samples); each goes along one function."""
        return np.ascontiguousarray(self._observations(X, n_samples, random_state).T)

    def _with_covariance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Cov(y_i, y_j): that of E[y | f] off the diagonal, of the observation on it."""
        x, likelihood = self.transform_inputs(X), self.posterior_.likelihood
        prediction = self._prediction(x)
        is_linear = in_units(likelihood, 0.0, 1.0) is not None and likelihood.num_latents == 1
        if is_linear and has_covariance(self.posterior_):
            covariance = latent_covariance(self.posterior_, x)
        else:
            # E[y | f] is no linear function of f, or near data make its covariance a sum over pairs of neighbours: it
            # is that over functions drawn.
            f, which = self._functions(x, self.posterior_.num_particles, random_key(self.random_state, COVARIANCE))
            means = self.posterior_.observation_mean(f, which)
            covariance = np.atleast_2d(np.cov(means, rowvar=False, bias=True))
        np.fill_diagonal(covariance, np.square(_deviation(prediction)))
        return _mean(prediction), covariance


def _mean(prediction: Prediction) -> Float[np.ndarray, " n"]:
    mean = np.asarray(prediction.observation_mean)
    if np.all(np.isfinite(mean)):
        return mean
    return np.where(np.isfinite(mean), mean, prediction.mean)


def _deviation(prediction: Prediction) -> Float[np.ndarray, " n"]:
    return np.sqrt(np.asarray(prediction.observation_variance))
