"""Particles of a target, and how far they can be trusted: certificate, weights, evidence, modes."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from jaxtyping import Int

from kosambi._core.checks import check_key
from kosambi._core.html import table_html
from kosambi._core.types import Key
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError, WeightWarning
from kosambi.likelihoods import AbstractLikelihood
from kosambi.posterior import importance
from kosambi.posterior._modes import ModeSummary, acceptance_of, find_mode_summary, report_of_mode
from kosambi.posterior.certificate import Certificate, certify
from kosambi.posterior.doubled import certify_neighbors
from kosambi.priors import AbstractPrior
from kosambi.samplers import LogEvidence, Particles, Report
from kosambi.samplers.base import warn_user
from kosambi.target import Target

if TYPE_CHECKING:
    from kosambi.learning import Selection

Self = TypeVar("Self", bound="AbstractPosterior")


class AbstractPosterior:
    """Posterior draws of the coordinates, and how good they are; `Posterior` carries them back to functions."""

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
        self.report = report
        """How the particles were drawn; None for particles from elsewhere."""
        self.selection: Selection | None = None
        """Why there are so many inducing points, where `infer` was asked to choose their number."""
        self.reweighting: Certificate | None = None
        """The certificate of the draws that these were taken from by weight; see `reweighted`."""
        self.mode_share = 1.0
        """The share of the posterior that the particles stand for; below 1 for one mode of several; see `by_mode`."""
        known = target.stream
        largest = target.basis.prior.variance(target.x) if known is None else known.largest_variance
        self._largest_variance = float(np.max(np.asarray(largest)))

    @property
    def basis(self) -> AbstractBasis:
        """The basis, whose M coordinates were sampled."""
        return self.target.basis

    @property
    def prior(self) -> AbstractPrior:
        """The prior over functions."""
        return self.target.basis.prior

    @property
    def likelihood(self) -> AbstractLikelihood:
        """The likelihood of an observation given f."""
        return self.target.likelihood

    @property
    def num_particles(self) -> int:
        """J, the number of posterior draws."""
        return self.particles.num_particles

    @property
    def num_components(self) -> int:
        """How many normal distributions the predictive distribution of f at an input is a mixture of."""
        return 1 if self.particles.distribution is not None else self.num_particles

    @property
    def explained_variance(self) -> float:
        """The share of the prior variance at the data that the M coordinates explain: 1 − Σσ²/Σr."""
        if (known := self.target.stream) is not None:
            return float(1.0 - known.residual_trace / known.prior_trace)
        prior = np.sum(np.asarray(self.prior.variance(self.target.x)))
        if (rows := self.target.neighborhood) is not None:
            return float(rows.explained / prior)
        return float(1.0 - np.sum(np.asarray(self.basis.residual_variance(self.target.x))) / prior)

    def certificate(self, *, num_nodes: int | None = None) -> Certificate:
        r"""How far the draws are from the best distribution with the same M coordinates, with bounds and in words.

        KL(Π_∞, Π*) = E Δ + log E e^{−Δ} on the particles (paper, Theorem 1), the bound of Theorem 2, and for a Gaussian
        likelihood a bound on the distance from the full posterior; see `kosambi.posterior.certificate`. For `RitzBasis`
        and `PointBasis`. With m neighbours it is the distance from the distribution with 2m, which takes about four
        times as long as the potential with m, and the log density of some rows given others, with none, m and 2m.

        Arguments:
            num_nodes: of the quadrature of Π*, with neighbours of Π_m and Π_2m; chosen from the residual when None.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> y = (x[:, 0] > 0).astype(float)
        >>> kernel, bernoulli = ko.kernels.Matern52(), ko.likelihoods.Bernoulli()
        >>> posterior = ko.infer(jax.random.key(0), kernel, bernoulli, x, y, num_inducing=6, num_particles=1000)
        >>> certificate = posterior.certificate()
        >>> certificate.divergence < certificate.bound < certificate.bounds.theorem
        True
        """
        judge = certify if self.target.neighborhood is None else certify_neighbors
        return judge(self.target, self.particles, report=self.report, reweighting=self.reweighting, num_nodes=num_nodes)

    def reweighted(self: Self, key: Key, *, num_nodes: int | None = None) -> Self:
        """The posterior with draws from the best distribution with the same coordinates: these, taken again by weight.

        J draws with replacement, each as often as its weight e^{−Δ} says (systematic resampling), so some occur twice.
        Warns with a `WeightWarning` where the weights are too uneven; draw with `potential="optimal"` then. The report
        stays that of the run, without the ladder of a tempering run, which speaks of the other potential.

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
        if self.mode_share < 1.0:
            raise InputError(
                "Weights compare the draws of all modes with each other, and these are of one mode. Use "
                "`posterior.reweighted(key).by_mode()` of the whole posterior."
            )
        if self.target.neighborhood is not None:
            raise InputError(
                'Draws with potential="neighbors" cannot be reweighted to a distribution whose residual keeps its '
                'prior. Draw with potential="optimal" if that is wanted.'
            )
        if self.target.stream is not None:
            raise InputError(
                "Draws given all rows of a source cannot be reweighted, as a sample of the rows is all that is here. "
                'Call `infer` with the source and potential="optimal".'
            )
        certificate = self.certificate(num_nodes=num_nodes)
        if not certificate.can_reweight:
            warn_user(
                f"The weights of {self.num_particles} draws cannot carry them over (Pareto k "
                f'{certificate.pareto_k:.2f}, worth {certificate.effective_draws:.0f}). Draw with potential="optimal".',
                WeightWarning,
            )
        # In closed form, or of equal weight: every draw once.
        chosen = importance.systematic(key, np.asarray(certificate.weights))
        report = self.report
        if report is not None:
            acceptance = acceptance_of(report, chosen, self.num_particles)
            report = dataclasses.replace(report, acceptance_by_particle=acceptance, ladder=None)
        found = self._some(chosen, self.target.with_potential("optimal", num_nodes=num_nodes), report)
        found.reweighting = certificate
        return found

    @functools.cached_property
    def log_evidence(self) -> LogEvidence:
        """The log marginal likelihood (evidence), log ∫ exp(−V) over the prior, with its standard error.

        How probable the data are under this model and potential. In closed form for a Gaussian likelihood, from the
        ladder after `sampler="tempering"`, otherwise by importance sampling from the Laplace approximations at the
        modes, whose random numbers follow from the particles: another key of the run gives another estimate, within
        the standard error. For one mode of several (`by_mode`) it is the integral over that mode.
        `kosambi.compare` sets several models side by side.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
        >>> gaussian = ko.likelihoods.Gaussian(0.1)
        >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, np.sin(3 * x[:, 0]))
        >>> posterior.log_evidence.method, posterior.log_evidence.standard_error
        ('exact', 0.0)
        """
        whole = importance.log_evidence(self.target, self.particles, self.report)
        # The report of a mode has a ladder whose evidence is that of the mode.
        if self.mode_share == 1.0 or (self.report is not None and self.report.ladder is not None):
            return whole
        is_known = self.report is None or self.report.converged
        return importance.share_of_evidence(whole, self.mode_share, self.num_particles, is_known)

    def modes(self) -> ModeSummary:
        """The modes that the particles sit in, with their shares, by going downhill from each particle.

        Shares are posterior probabilities where the sampler passes between modes, as `Tempering` does.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> kernel, poisson = ko.kernels.SquaredExponential(variance=4.0), ko.likelihoods.Poisson("square")
        >>> posterior = ko.infer(jax.random.key(0), kernel, poisson, x, np.full(30, 4.0), num_inducing=3)
        >>> posterior.modes().num_modes
        2
        """
        return find_mode_summary(self.target, self.particles)

    def by_mode(self: Self) -> list[Self]:
        """One posterior per mode, the fullest first, each with the particles of that mode.

        `mode_share` is the mode's share of the particles, and `log_evidence` the part of the evidence that lies in it,
        so that the parts of all modes add up to the whole; its standard error is NaN where the run has not converged,
        since shares say little then. The report counts acceptance, effective draws and energy of the mode's particles;
        `converged` and R̂ are those of the run, which compares all modes.

        >>> import jax, numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> kernel, poisson = ko.kernels.SquaredExponential(variance=4.0), ko.likelihoods.Poisson("square")
        >>> posterior = ko.infer(jax.random.key(0), kernel, poisson, x, np.full(30, 4.0), num_inducing=3)
        >>> parts = posterior.by_mode()
        >>> len(parts), sum(part.num_particles for part in parts)
        (2, 100)
        >>> total = np.logaddexp(*(part.log_evidence.value for part in parts))
        >>> bool(abs(total - posterior.log_evidence.value) < 1e-9)
        True
        """
        labels = self.modes().labels
        if labels.max() == 0:
            return [self]
        potentials, parts = np.asarray(self.target.potential(self.particles.coordinates)), []
        for number in range(int(labels.max()) + 1):
            chosen = labels == number
            energy, report = float(np.mean(potentials[chosen])), self.report
            report = None if report is None else report_of_mode(report, chosen, energy)
            part = self._some(np.flatnonzero(chosen), self.target, report)
            part.mode_share = self.mode_share * float(np.mean(chosen))
            parts.append(part)
        return parts

    def some(self: Self, chosen: Int[np.ndarray, " L"]) -> Self:
        """The posterior with some of the particles, by their numbers."""
        report = self.report
        if report is not None:
            acceptance = acceptance_of(report, chosen, self.num_particles)
            report = dataclasses.replace(report, acceptance_by_particle=acceptance)
        return self._some(chosen, self.target, report)

    def _some(self: Self, chosen: Int[np.ndarray, " L"], target: Target, report: Report | None) -> Self:
        """The posterior with some of the particles, by their numbers."""
        held = self.particles
        particles = Particles(held.coordinates[chosen], held.whitened[chosen], held.distribution)
        found = type(self)(target, particles, report)
        found.selection, found.reweighting, found.mode_share = self.selection, self.reweighting, self.mode_share
        return found

    def __repr__(self) -> str:
        state = "" if self.report is None else (", converged" if self.report.converged else ", NOT converged")
        part = "" if self.mode_share == 1.0 else f", {100 * self.mode_share:.3g} % of the posterior"
        return (
            f"{type(self).__name__}({self.num_particles} draws, M={self.basis.size} of {type(self.basis).__name__}, "
            f"{type(self.likelihood).__name__}, N={self.target.num_rows}{state}{part})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("posterior draws", self.num_particles),
            ("coordinates", f"{self.basis.size} of {type(self.basis).__name__}"),
            ("data", f"{self.target.num_rows} rows, {self.target.x.shape[1]} columns"),
            ("prior", f"{type(self.prior).__name__}, {self.prior.kernel!r}"),
            ("likelihood", repr(self.likelihood)),
            ("potential", self.target.kind),
        ]
        if self.mode_share < 1.0:
            rows.append(("share of the posterior", f"{100 * self.mode_share:.3g} %"))
        if self.report is None:
            return table_html(type(self).__name__, rows)
        state = "converged" if self.report.converged else "NOT converged"
        rows.append(("sampler", f"{self.report.sampler}: {state}, nested R-hat {self.report.r_hat:.4f}"))
        return table_html(type(self).__name__, rows, notes=[f"warning: {text}" for text in self.report.warnings])
