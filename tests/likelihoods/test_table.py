"""Names, starting values and units of every likelihood in the table."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.parameters import parameters
from kosambi.errors import InputError
from kosambi.estimators._models import as_likelihood
from kosambi.learning.layout import Model, lay_out
from tests.likelihoods.table import CASES, SEVERAL

lk = ko.likelihoods
ALL = {**CASES, **SEVERAL}
WITH_UNITS = {name for name, case in ALL.items() if case.likelihood.in_units(0.0, 1.0) is not None}


def test_short_names_are_those_of_classes_in_the_table():
    assert set(lk.BY_SHORT_NAME) == {
        "exponential",
        "gamma",
        "gaussian",
        "heteroscedastic",
        "laplace",
        "negative_binomial",
        "poisson",
        "student_t",
        "zero_inflated_poisson",
    }
    assert set(lk.BY_SHORT_NAME.values()) <= set(lk.TABLE.values())
    for name, cls in lk.BY_SHORT_NAME.items():
        assert type(as_likelihood(name)) is cls
        assert as_likelihood(name).is_density
        assert cls.short_name == name
    with pytest.raises(InputError, match=r"must be one of .*\"zero_inflated_poisson\""):
        as_likelihood("zip")


def test_names_that_were_there_before_begin_where_they_did():
    assert float(as_likelihood("gaussian").noise) == 0.3
    assert (float(as_likelihood("student_t").scale), float(as_likelihood("student_t").degrees_of_freedom)) == (0.3, 4.0)
    assert float(as_likelihood("negative_binomial").dispersion) == 0.5
    assert float(as_likelihood("gamma").shape) == 2.0
    assert as_likelihood("poisson").link == "exp"


@pytest.mark.parametrize("name", ALL)
def test_starting_values_are_possible_ones(name):
    case = ALL[name]
    y = np.tile(case.y, 20)
    started = case.likelihood.started_from(y, 0.3, 1.5)
    assert type(started) is type(case.likelihood)
    assert jax.tree.structure(started) == jax.tree.structure(case.likelihood)
    for old, new in zip(*(parameters(likelihood=m) for m in (case.likelihood, started)), strict=True):
        assert np.shape(new.value) == np.shape(old.value)
        assert np.all(np.isfinite(new.value))
        if new.support == "fixed":
            assert new.value.tobytes() == old.value.tobytes()
    # Refuses values outside of what a parameter can be.
    lay_out(Model(ko.kernels.Matern52(), np.zeros(()), started))


def test_starting_values_by_formula(rng):
    y = rng.normal(size=200)
    quartiles = np.quantile(y, [0.25, 0.75])
    assert float(lk.Gaussian().started_from(y, 0.3, 2.0).noise) == pytest.approx(0.6)
    known = lk.Gaussian(np.full(200, 0.2))
    assert known.started_from(y, 0.3, 2.0) is known
    assert float(lk.StudentT().started_from(y, 0.3, 9.0).scale) == pytest.approx(0.21 * np.ptp(quartiles) / 1.35)
    assert float(lk.Laplace().started_from(y, 0.3, 2.0).scale) == pytest.approx(0.42)
    mixture = lk.ShiftMixture(3.0, 0.2).started_from(y, 0.3, 2.0)
    assert (float(mixture.shift), float(mixture.probability), float(mixture.noise)) == pytest.approx((3.0, 0.2, 0.6))
    assert float(lk.Gamma().started_from(y, 0.5, 1.0).shape) == pytest.approx(4.0)
    assert float(lk.Exponential().started_from(y, 0.5, 1.0).shape) == 1.0
    assert float(lk.NegativeBinomial().started_from(y, 0.5, 1.0).dispersion) == pytest.approx(0.25)
    labels = np.array([0.0] * 50 + [1.0] * 25 + [2.0] * 25)
    below = np.cumsum([50.5, 25.5]) / 101.5
    found = lk.Ordinal([0.0, 1.0]).started_from(labels, 0.3, 1.0).cut_points
    np.testing.assert_allclose(found, 1.5 * np.log(below / (1.0 - below)), rtol=1e-12)
    counts = np.array([0.0, 0.0, 3.0, 1.0])
    assert float(lk.ZeroInflatedPoisson().started_from(counts, 0.3, 1.0).probability) == pytest.approx(0.25)


def test_which_likelihoods_have_units():
    assert sorted(WITH_UNITS) == ["Gaussian", "HeteroscedasticGaussian", "Laplace", "ShiftMixture", "StudentT"]


@pytest.mark.parametrize("name", sorted(WITH_UNITS))
def test_other_units_change_the_density_by_their_jacobian_alone(name, rng):
    case, location, scale = ALL[name], -3.0, 2.5
    moved = case.likelihood.in_units(location, scale)
    f = rng.normal(size=(len(case.y), case.likelihood.num_latents))
    f = f[:, 0] if case.likelihood.num_latents == 1 else f
    found = moved.likelihood.log_density(location + scale * case.y, moved.location + moved.scale * f)
    np.testing.assert_allclose(found, case.likelihood.log_density(case.y, f) - np.log(scale), rtol=1e-12)
    back = moved.likelihood.in_units(-location / scale, 1.0 / scale).likelihood
    for a, b in zip(*map(jax.tree.leaves, (back, case.likelihood)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_one_noise_for_each_row():
    several = lk.Gaussian([0.1, 0.2, 0.3])
    assert several.num_rows == 3
    np.testing.assert_array_equal(several.at_rows(np.array([2, 0])).noise, [0.3, 0.1])
    np.testing.assert_array_equal(several.at_rows(slice(1, 3)).noise, [0.2, 0.3])
    for case in ALL.values():
        assert case.likelihood.num_rows is None
        assert case.likelihood.at_rows(np.array([2, 0])) is case.likelihood


def test_what_is_binary():
    assert {name for name, case in ALL.items() if case.likelihood.is_binary} == {"Bernoulli", "Bernoulli, probit"}
