"""The posterior: particles of coordinates, carried back to functions and to predictions."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from kosambi._core.errors import (
    InputError,
    SupportWarning,
    WeightWarning,
    as_count,
    as_inputs,
    as_positive,
    check_key,
    is_traced,
)
from kosambi._core.precision import public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.basis import AbstractBasis
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior._arviz import to_arviz
from kosambi.posterior._evidence import log_evidence
from kosambi.posterior._functions import draw_functions
from kosambi.posterior._matheron import MatheronDraws, draw_matheron
from kosambi.posterior._modes import ModeSummary, find_mode_summary
from kosambi.posterior.certificate import Certificate, certify
from kosambi.posterior.importance import systematic
from kosambi.posterior.prediction import Prediction
from kosambi.posterior.summaries import latent_distribution
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.samplers import Particles
from kosambi.samplers.report import LogEvidence, Report
from kosambi.target import Target

if TYPE_CHECKING:
    from kosambi.learning import Selection

LOW_SUPPORT = 0.05
"""Inputs with less support than this are warned of."""
METHODS = ("pathwise", "matheron")


class Posterior:
    """Functions given data: draws of them, and predictions from them.

    Arguments:
        target: the potential that was sampled from.
        particles: draws of its coordinates.
        report: how they were drawn; None for particles from elsewhere.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, np.sin(3 * x[:, 0]))
    >>> posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=20))
    >>> posterior.functions(jax.random.key(1))(x).shape
    (20, 50)
    >>> posterior.predict([[0.0]]).mean.shape
    (1,)
    """

    def __init__(self, target: Target, particles: Particles, report: Report | None = None) -> None:
        if not isinstance(target, Target):
            raise InputError(f"`Posterior` needs a `kosambi.Target` first. Got {type(target).__name__}.")
        if not isinstance(particles, Particles):
            raise InputError(
                f"`Posterior` needs particles. Got {type(particles).__name__}. Use `kosambi.sample`, or "
                "`Particles.from_coordinates(target, u)`."
            )
        if np.shape(particles.whitened)[1:] != target.shape:
            raise InputError(
                f"`particles` have coordinates of shape {np.shape(particles.whitened)[1:]}, but the target's have "
                f"{target.shape}. Use particles that were drawn from this target."
            )
        self.target, self.particles = target, particles
        self._report = report
        self.selection: Selection | None = None
        """Why there are so many inducing points, where `infer` was asked to choose their number."""
        self.reweighting: Certificate | None = None
        """The certificate of the draws that these were taken from by weight; see `reweighted`."""
        self._notes: tuple[str, ...] = ()
        self._largest_variance = float(np.max(np.asarray(target.basis.prior.variance(target.x))))

    @property
    def report(self) -> Report | None:
        """How the particles were drawn, with what predictions have warned of since."""
        if self._report is None or not self._notes:
            return self._report
        return dataclasses.replace(self._report, warnings=(*self._report.warnings, *self._notes))

    @property
    def basis(self) -> AbstractBasis:
        """The coordinates."""
        return self.target.basis

    @property
    def prior(self) -> AbstractPrior:
        """The prior over functions."""
        return self.target.basis.prior

    @property
    def likelihood(self) -> AbstractLikelihood:
        """The cost of an observation."""
        return self.target.likelihood

    @property
    def num_particles(self) -> int:
        """J."""
        return self.particles.num_particles

    @property
    def explained_variance(self) -> float:
        """The share of the prior variance at the data that the M coordinates explain: 1 − Σσ²/Σr."""
        residual, prior = self.basis.residual_variance(self.target.x), self.prior.variance(self.target.x)
        return float(1.0 - np.sum(np.asarray(residual)) / np.sum(np.asarray(prior)))

    def certificate(self, *, num_nodes: int | None = None) -> Certificate:
        r"""How far the draws are from the best law with the same M coordinates, with bounds, in numbers and in words.

        KL(Π_∞, Π*) = E Δ + log E e^{−Δ} on the particles (paper, Theorem 1), the bound of Theorem 2, and for a Gaussian
        likelihood a bound on the distance from the full posterior; see `kosambi.certificate`. For `RitzBasis` and
        `PointBasis`.

        Arguments:
            num_nodes: of the quadrature of Π*; chosen from the residual when None.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> y = (x[:, 0] > 0).astype(float)
        >>> kernel, bernoulli = ko.kernels.Matern52(), ko.likelihoods.Bernoulli()
        >>> posterior = ko.infer(jax.random.key(0), kernel, bernoulli, x, y, num_inducing=6, num_particles=1000)
        >>> certificate = posterior.certificate()
        >>> certificate.divergence < certificate.bound < certificate.bounds.theorem
        True
        """
        return certify(
            self.target, self.particles, report=self._report, reweighting=self.reweighting, num_nodes=num_nodes
        )

    def reweighted(self, key: Key, *, num_nodes: int | None = None) -> Posterior:
        """The posterior with draws from the best law with the same coordinates: these draws, taken again by weight.

        J draws with replacement, each as often as its weight e^{−Δ} says (systematic resampling), so some occur twice.
        Warns with a `WeightWarning` where the weights are too uneven; draw with `potential="optimal"` then.

        Arguments:
            key: a JAX random key.
            num_nodes: of the quadrature; chosen from the residual when None.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> y = (x[:, 0] > 0).astype(float)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, y)
        >>> posterior.reweighted(jax.random.key(1)).target.kind
        'optimal'
        """
        key = check_key(key)
        certificate = self.certificate(num_nodes=num_nodes)
        if not certificate.can_reweight:
            warnings.warn(
                f"The weights of {self.num_particles} draws cannot carry them over (Pareto k "
                f'{certificate.pareto_k:.2f}, worth {certificate.effective_draws:.0f}). Draw with potential="optimal".',
                WeightWarning,
                stacklevel=2,
            )
        target = self.target.with_potential("optimal", num_nodes=num_nodes)
        # In closed form, or of equal weight: every draw once.
        chosen = systematic(key, np.asarray(certificate.weights))
        particles = Particles(self.particles.coordinates[chosen], self.particles.whitened[chosen], self.particles.distribution)
        posterior = Posterior(target, particles, self._report)
        posterior.selection, posterior.reweighting = self.selection, certificate
        return posterior

    @functools.cached_property
    def log_evidence(self) -> LogEvidence:
        """log ∫ exp(−V) over the prior, with its standard error: how probable the data are under this model.

        In closed form for a Gaussian likelihood, from the ladder after `sampler="tempering"`, otherwise by importance
        sampling from the Laplace laws at the modes. `kosambi.compare` sets several side by side.
        """
        return log_evidence(self.target, self.particles, self._report)

    def modes(self) -> ModeSummary:
        """The modes that the particles sit in, with their shares, by going downhill from each particle.

        Shares are posterior probabilities where the sampler passes between modes, as `Tempering` does.
        """
        return find_mode_summary(self.target, self.particles)

    def by_mode(self) -> list[Posterior]:
        """One posterior a mode, the fullest first, each with the particles of that mode."""
        labels, parts = self.modes().labels, []
        for number in range(int(labels.max()) + 1):
            chosen = labels == number
            held = self.particles
            law = held.distribution if chosen.all() else None
            particles = Particles(held.coordinates[chosen], held.whitened[chosen], law)
            parts.append(Posterior(self.target, particles, self._report))
        return parts

    @public
    def functions(
        self, key: Key, *, method: str = "pathwise", domain: ArrayLike | None = None, at: ArrayLike | None = None
    ) -> FunctionDraws | MatheronDraws:
        r"""One function a particle: `draws(x)` gives (J, N), or (J, N, C) with C latent functions.

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
        if is_traced((key, at)):
            raise InputError(
                "`functions` chooses frequencies on the host. Call it outside `jit`; use the draws inside."
            )
        key = check_key(key)
        if method not in METHODS:
            raise InputError(f'`method` must be "pathwise" or "matheron". Got {method!r}.')
        if method == "matheron":
            if at is not None or domain is not None:
                raise InputError(
                    '`at` and `domain` mean nothing to method="matheron", which draws as it is asked. Leave them out.'
                )
            return draw_matheron(key, self.target, self.particles.coordinates)
        points = None if at is None else as_inputs("at", at, self.target.x.shape[1])
        ends = None if domain is None else as_inputs("domain", domain, self.target.x.shape[1])
        if ends is not None and ends.shape[0] != 2:
            raise InputError(
                f"`domain` must have two rows, the lowest and the highest inputs. Got {ends.shape[0]} rows."
            )
        return draw_functions(key, self.target, self.particles, points, ends)

    def predict(self, x_new: ArrayLike, *, noise: ArrayLike | None = None) -> Prediction:
        """The laws of f and of an observation at the rows of `x_new` (N, D), each by itself.

        What is said of one input never depends on which others are asked for. Nothing is simulated: the residual and
        the noise are integrated out. Holds (J, N) numbers.

        Arguments:
            x_new: (N, D).
            noise: (N,), the noise of new observations, where `Gaussian(noise=...)` was given one for each datum.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> gaussian = ko.likelihoods.Gaussian(0.1)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
        >>> p = posterior.predict([[0.5], [9.0]])
        >>> abs(p.mean).round(1), p.variance.round(2), p.support
        (array([1., 0.]), array([0., 1.]), array([1., 1.]))
        """
        return self._predict(x_new, noise)

    @public
    def _predict(self, x_new: ArrayLike, noise: ArrayLike | None) -> Prediction:
        x = as_inputs("x_new", x_new, self.target.x.shape[1], allow_empty=True)
        if is_traced(x):
            raise InputError(
                "`predict` works on concrete inputs. Use `posterior.functions(key)` inside `jit` and `grad`."
            )
        likelihood = self._likelihood_for(noise, x.shape[0])
        latent = latent_distribution(self.target, self.particles, x)
        support = np.clip(latent.prior_variance / self._largest_variance, 0.0, 1.0)
        far = int(np.sum(support < LOW_SUPPORT))
        notes: tuple[str, ...] = ()
        # A `GaussianProcess` without variance somewhere, such as a linear one at zero, means what it says.
        if far and isinstance(self.prior, GaussianRandomElement):
            what = (
                f"new inputs lie where the prior has less than {100 * LOW_SUPPORT:g} % of its variance at the data, so "
                "f is near its prior mean there with false certainty. Use `GaussianProcess`, or give the measure a "
                "background: `prior.with_background()`."
            )
            notes = (f"{far} of {x.shape[0]} {what}",)
            # In the report once, however often it is asked.
            self._notes = (f"Some {what}",)
            warnings.warn(notes[0], SupportWarning, stacklevel=4)
        is_known = not (isinstance(likelihood, Gaussian) and likelihood.noise.ndim == 1 and noise is None)
        return Prediction(likelihood, latent.means, latent.deviation, support, notes, is_noise_known=is_known)

    def log_predictive_density(
        self, x_new: ArrayLike, y_new: ArrayLike, *, noise: ArrayLike | None = None
    ) -> Float[Array, " N"]:
        """log p(y | data) of each new observation by itself, (N,), constants included.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Poisson(), x, np.ones(50))
        >>> posterior.log_predictive_density([[0.0]], [1.0]).round(1)
        array([-1.])
        """
        return self._predict(x_new, noise).log_density(y_new)

    def to_arviz(self, num_chains: int = 4, *, log_likelihood: bool = True) -> Any:
        """The particles for ArviZ: `InferenceData` with ArviZ 0.23, a `DataTree` with 1.x, whichever is installed.

        Groups: `posterior` with u and whitened w, `sample_stats` with lp = −V and the acceptance rate, `observed_data`
        y, `constant_data` x, and `log_likelihood` y, log p(y_n | u_j) with the residual of f integrated out, which
        `arviz.loo` reads (its weights are those of the sampled posterior as far as the residual is small). With
        `weights` each is multiplied by its weight. Particle j goes to chain j mod `num_chains`. Those that began
        together, j mod 8, stay together if `num_chains` is 2, 4 or 8, so that R̂ sees a start that was not forgotten.
        A few hundred particles at least make R̂ and effective sizes meaningful.

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
        return to_arviz(self.target, self.particles, self.report, chains, bool(log_likelihood))

    def _likelihood_for(self, noise: ArrayLike | None, num_points: int) -> AbstractLikelihood:
        if noise is None:
            return self.likelihood
        if not isinstance(self.likelihood, Gaussian):
            raise InputError(
                f"`noise` is for `Gaussian` likelihoods. Got {type(self.likelihood).__name__}. Leave it out."
            )
        values = as_positive("noise", noise, max_ndim=1)
        if values.ndim == 1 and values.shape[0] != num_points:
            raise InputError(f"`noise` has {values.shape[0]} entries for {num_points} inputs. Give one an input.")
        return Gaussian(values)

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

    def __repr__(self) -> str:
        state = "" if self._report is None else (", converged" if self._report.converged else ", NOT converged")
        return (
            f"Posterior({self.num_particles} draws, M={self.basis.size} of {type(self.basis).__name__}, "
            f"{type(self.likelihood).__name__}, N={self.target.x.shape[0]}{state})"
        )
