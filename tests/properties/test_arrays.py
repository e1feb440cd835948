"""The same numbers in another form give the same answer; what holds no numbers is refused by name."""

from __future__ import annotations

import datetime
import decimal
import fractions

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import FORMS, WHOLE_FORMS, faulty, forms, inputs, whole_forms
from tests.properties.promises import own_warnings_allowed, raised

KERNEL = ko.kernels.Matern32(lengthscale=0.8, variance=1.5)
X = np.random.default_rng(0).normal(size=(5, 2))
Y = np.sin(X[:, 0])
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def posterior():
    return ko.infer(KEY, KERNEL, ko.likelihoods.Gaussian(0.3), X, Y, num_inducing=2, num_particles=2)


def readers(posterior):
    """Calls that take a matrix of inputs with two columns."""
    prior, basis = posterior.prior, posterior.basis
    element = ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X))
    draws = prior.draw(KEY, 2, num_columns=2)
    return {
        "kernel": KERNEL,
        "kernel, second": lambda x: KERNEL(X, x),
        "diagonal": KERNEL.diagonal,
        "covariance": prior.covariance,
        "variance": prior.variance,
        "mean": prior.mean_at,
        "covariance of a random element": element.covariance,
        "points": lambda x: ko.measures.points(x, np.ones(len(np.asarray(x)))).points,
        "empirical": lambda x: ko.measures.empirical(x).points,
        "draws": draws,
        "evaluate": basis.evaluate,
        "conditional mean": basis.conditional_mean,
        "residual": basis.residual_variance,
        "predict": lambda x: posterior.predict(x).mean,
        "functions": posterior.functions(KEY),
        "improvement": ko.acquisition.ExpectedImprovement(posterior),
    }


NAMES = (
    "kernel",
    "kernel, second",
    "diagonal",
    "covariance",
    "variance",
    "mean",
    "covariance of a random element",
    "points",
    "empirical",
    "draws",
    "evaluate",
    "conditional mean",
    "residual",
    "predict",
    "functions",
    "improvement",
)


def test_every_reader_has_a_name(posterior):
    assert tuple(readers(posterior)) == NAMES


@given(x=inputs(num_rows=st.just(5), num_columns=st.just(2)), form=forms, name=st.sampled_from(NAMES))
def test_a_form_changes_no_number(posterior, x, form, name):
    call = readers(posterior)[name]
    with own_warnings_allowed():
        np.testing.assert_array_equal(call(FORMS[form](x)), call(x))


@given(seed=st.integers(0, 10), form=whole_forms, name=st.sampled_from(NAMES))
def test_whole_numbers_of_any_type_are_the_same_numbers(posterior, seed, form, name):
    x = np.random.default_rng(seed).integers(-4, 5, (5, 2)).astype(float)
    call = readers(posterior)[name]
    with own_warnings_allowed():
        found = call(WHOLE_FORMS[form](x))
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, call(x))


@given(x=inputs(num_rows=st.just(5), num_columns=st.just(2)).flatmap(faulty), form=forms, name=st.sampled_from(NAMES))
def test_bad_input_that_is_not_finite_is_refused_by_its_name(posterior, x, form, name):
    message = raised(readers(posterior)[name], FORMS[form](x))
    assert "finite" in message or "hold numbers" in message
    assert "`x" in message or "`z`" in message or "`points`" in message


NONSENSE = {
    "text": [["a", "b"]],
    "text in an array": np.array([["1.0", "b"]]),
    "complex": [[1.0 + 2.0j, 0.0]],
    "dates": np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"),
    "a date": [[datetime.date(2020, 1, 1), 1.0]],
    "ragged": [[1.0, 2.0], [3.0]],
    "nested": [[[1.0], 2.0]],
    "none": None,
    "nones": [[None, 1.0]],
    "a dictionary": {"a": 1.0},
    "a number beyond float64": [[10**400, 1.0]],
    "bytes": b"12",
    "structured": np.zeros(2, dtype=[("a", float), ("b", float)]),
    "one number": 1.0,
    "a vector": [1.0, 2.0],
    "three axes": np.zeros((1, 2, 2)),
    "no columns": np.zeros((3, 0)),
    "other columns": np.zeros((3, 5)),
    "a masked entry": np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]]),
    "a key": jax.random.key(0),
    "a function": np.sin,
}


# These know of no number of columns.
ANY_WIDTH = ("kernel", "diagonal", "covariance", "variance", "mean", "points", "empirical")


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_bad_input_of_every_sort_is_refused_by_every_reader(posterior, nonsense):
    for name, call in readers(posterior).items():
        if (nonsense, name) == ("none", "kernel, second") or (nonsense == "other columns" and name in ANY_WIDTH):
            continue
        raised((lambda x: ko.measures.points(x, [1.0])) if name == "points" else call, NONSENSE[nonsense])


@pytest.mark.parametrize(
    "number", [decimal.Decimal("1.5"), fractions.Fraction(3, 2), np.float64(1.5), np.longdouble(1.5)]
)
def test_numbers_of_other_libraries_are_numbers(number):
    np.testing.assert_array_equal(KERNEL([[number, 0]]), KERNEL([[1.5, 0.0]]))
