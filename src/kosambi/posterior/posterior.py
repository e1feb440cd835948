"""The posterior: particles of coordinates, carried back to functions and to predictions."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.posterior import _arviz, _functions, _predictive
from kosambi.posterior._matheron import MatheronDraws
from kosambi.posterior.base import AbstractPosterior
from kosambi.posterior.conditioning import check_whole, condition
from kosambi.posterior.prediction import Prediction
from kosambi.priors import FunctionDraws
from kosambi.samplers import AbstractSampler


class Posterior(AbstractPosterior):
    """Functions given data: posterior draws of them, and predictions from them.

    Nothing that is asked of a posterior changes it.

    Arguments:
        target: the potential that was sampled from.
        particles: draws of its coordinates.
        report: how they were drawn; None for particles from elsewhere.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, np.sin(3 * x[:, 0]))
    >>> posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=20))
    >>> posterior
    Posterior(20 draws, M=5 of PointBasis, Gaussian, N=50, converged)
    >>> posterior.functions(jax.random.key(1))(x).shape
    (20, 50)
    >>> posterior.predict([[0.0]]).mean.shape
    (1,)
    """

    def functions(
        self, key: Key, *, method: str = "pathwise", domain: ArrayLike | None = None, at: ArrayLike | None = None
    ) -> FunctionDraws | MatheronDraws:
        r"""One function for each of the J particles: `draws(x)` gives (J, N), or (J, N, C) with C latent functions.

        F_j = m + φᵀu_j + residual, the residual being G − φᵀ⟨G, e⟩ for a prior draw G of its own. The same function at
        every call, on any subset and from any batch; differentiable in x, under `jit` and `vmap`. Cost O(J N (S + M)).

        Arguments:
            key: a JAX random key.
            method: "pathwise", or "matheron" for the paper's rule (appendix "Matheron's Rule"), whose values depend on
                which inputs are asked for together and which costs O((N + M)³).
            domain: (2, D), the lowest and the highest input of each column at which the functions will be evaluated
                together, where that is wider than twice the data. Beyond it draws of a stationary `GaussianProcess`
                repeat, and a `DomainWarning` says so.
            at: (A, D), inputs where draws must be exact, for a `GaussianProcess` with a kernel of your own that is not
                made of stationary and finite-rank kernels.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> y = (x[:, 0] > 0).astype(float)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, y)
        >>> draws = posterior.functions(jax.random.key(1))
        >>> slope = jax.grad(lambda t: draws[0](t.reshape(1, 1))[0, 0])
        >>> with jax.enable_x64(True):
        ...     slope(np.zeros(())).shape
        ()
        """
        return _functions.draw(key, self.target, self.particles, method, domain, at)

    def sample(self, key: Key, **options: Any) -> FunctionDraws | MatheronDraws:
        """Another name of `functions`: posterior draws of functions, with the same arguments.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> gaussian = ko.likelihoods.Gaussian(0.1)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, x[:, 0])
        >>> posterior.sample(jax.random.key(1))(x).shape
        (100, 50)
        """
        return self.functions(key, **options)

    def predict(self, x_new: ArrayLike, *, noise: ArrayLike | None = None) -> Prediction:
        """The distributions of f and of an observation at the rows of `x_new` (N, D), each by itself.

        What is said of one input never depends on which others are asked for. Nothing is simulated: the residual and
        the noise are integrated out. Holds (J, N) numbers.

        Arguments:
            x_new: (N, D).
            noise: (N,), the noise of new observations, where `Gaussian(noise=...)` was given one per observation.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> gaussian = ko.likelihoods.Gaussian(0.1)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
        >>> p = posterior.predict([[0.5], [9.0]])
        >>> abs(p.mean).round(1), p.variance.round(2), p.support
        (array([1., 0.]), array([0., 1.]), array([1., 1.]))
        """
        return _predictive.predict(self.target, self.particles, x_new, noise, self._largest_variance)

    def log_predictive_density(
        self, x_new: ArrayLike, y_new: ArrayLike, *, noise: ArrayLike | None = None
    ) -> Float[Array, " N"]:
        """log p(y | data) of each new observation by itself, (N,), constants included; in blocks of inputs.

        Arguments:
            x_new: (N, D).
            y_new: (N,), the observations there.
            noise: (N,), as for `predict`.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Poisson(), x, np.ones(50))
        >>> posterior.log_predictive_density([[0.0]], [1.0]).round(1)
        array([-1.])
        """
        return _predictive.log_predictive_density(
            self.target, self.particles, x_new, y_new, noise, self._largest_variance
        )

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
    ) -> Posterior:
        """The posterior given more rows: p(f | y, y'), with the same hyperparameters and the same basis.

        With Gaussian noise in closed form, equal to `infer` with all rows, `basis=posterior.basis` and the same
        potential; it takes time for the new rows only, unless neighbours inform f, and works for rows that were read as
        a stream. With other likelihoods the sampler runs on all rows and begins at the present particles; where there
        are several modes, `sampler="auto"` tempers afresh. Where all rows were neighbours of every input they still
        are. New rows that the basis knows little of are warned of: it was chosen for the rows before.

        Arguments:
            key: a JAX random key.
            x: (n, D), the inputs of the new rows.
            y: (n,), the observations there.
            weights: (n,), how often each counts; once when None.
            noise: (n,), the noise of each, where `Gaussian(noise=...)` was given one per observation.
            sampler: see `kosambi.sample`.
            num_particles: J; as many as there are when None.
            precision: "float64", "float32" or "tf32" for the steps of the sampler; see `sample`.
            progress: whether to show a progress line; None shows it on a terminal.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> y, gaussian = np.sin(3 * x[:, 0]), ko.likelihoods.Gaussian(0.1)
        >>> early = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::2], y[::2])
        >>> later = early.condition(jax.random.key(1), x[1::2], y[1::2])
        >>> later.target.num_rows, bool(np.all(later.predict(x).variance < early.predict(x).variance))
        (50, True)
        """
        options = {"precision": precision, "progress": progress}
        return self._conditioned(True, key, x, y, weights, noise, sampler, num_particles, options)

    def _conditioned(self, warns: bool, key: Key, *rest: Any) -> Posterior:
        """`condition`; `warns` says whether new rows that the basis knows little of are warned of, or reported only."""
        check_whole(self.mode_share)
        found = Posterior(*condition(warns, key, self.target, self.particles, self.report, *rest))
        found.selection = self.selection
        return found

    def draw_observations(
        self, key: Key, f: Float[Array, "S N *C"], which: Int[np.ndarray, " S"]
    ) -> Float[Array, "S N"]:
        """Observations given values `f` of functions that were drawn, (S, N), one for each.

        Arguments:
            key: a JAX random key.
            f: (S, N), or (S, N, C) with C latent functions.
            which: (S,), the numbers of these functions among the J of `functions`.
        """
        del which
        return np.asarray(self.likelihood.draw(key, f))

    def observation_mean(self, f: Float[Array, "S N *C"], which: Int[np.ndarray, " S"]) -> Float[Array, "S N"]:
        """E[y | f] for values `f` of functions that were drawn, whose numbers are `which`."""
        del which
        return np.asarray(self.likelihood.observation_mean(f))

    def to_arviz(self, num_chains: int = 4, *, log_likelihood: bool = True) -> Any:
        """The particles for ArviZ: `InferenceData` with ArviZ 0.23, a `DataTree` with 1.x, whichever is installed.

        Groups: `posterior` with u and whitened w, `sample_stats` with lp = −V and the acceptance rate, `observed_data`
        y, `constant_data` x, and `log_likelihood` y, log p(y_n | u_j) with the residual of f integrated out, which
        `arviz.loo` reads (its weights are those of the sampled posterior as far as the residual is small). With
        `weights` each is multiplied by its weight. Particle j goes to chain j mod `num_chains`. Those that began
        together, j mod 8, stay together if `num_chains` is 2, 4 or 8, so that R̂ sees a start that was not forgotten.
        A few hundred particles at least make R̂ and effective sample sizes meaningful.

        Arguments:
            num_chains: at most this many: the largest number that divides J into as many draws as chains or more.
            log_likelihood: whether to add it, (J, N) numbers; left out for a loss that is no density.

        Needs ArviZ: `pip install kosambi[arviz]`.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Poisson(), x, np.ones(50))
        >>> posterior.to_arviz()["posterior"]["u"].dims
        ('chain', 'draw', 'coordinate')
        """
        chains = as_count("num_chains", num_chains)
        return _arviz.to_arviz([(self.target, self.particles)], self.report, chains, bool(log_likelihood))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to one file, from which `kosambi.load(path)` gets it back bit for bit.

        See `kosambi.save`, which this calls, for what a file holds and for functions of your own.

        >>> import os, tempfile, jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> gaussian = ko.likelihoods.Gaussian(0.1)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.save(os.path.join(folder, "m.kosambi"))
        ...     again = ko.load(os.path.join(folder, "m.kosambi"))
        >>> bool(np.all(again.predict(x).mean == posterior.predict(x).mean))
        True
        """
        # Here, because files know every class, this one too.
        from kosambi.files import save

        save(self, path)
