"""Rules, and the three ways in which their sums are evaluated."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.files._checks import _problem
from kosambi.likelihoods import quadrature
from kosambi.likelihoods.quadrature import (
    AT_ONCE,
    EVALUATIONS,
    IN_GROUPS,
    IS_WIDE,
    ONE_BY_ONE,
    Rule,
    cubature,
    integrate,
    nodes_for,
    numbered_rule,
    trapezoidal,
)

lk = ko.likelihoods


@pytest.fixture
def never_little(monkeypatch):
    monkeypatch.setattr(quadrature, "_VALUES_AT_ONCE", 0)


def summed(rule, mean, deviation):
    with jax.enable_x64(True):
        return np.asarray(jax.jit(lambda m, d: integrate(jnp.cos, m, d, rule))(mean, deviation))


@pytest.mark.parametrize("num_nodes", [13, 17, 21, 34, 50, 67, 136])
def test_all_ways_give_the_same_sum(num_nodes, never_little):
    mean, deviation = np.linspace(-2.0, 2.0, 7), np.full(7, 0.8)
    step = 17.0 / (num_nodes - 1)
    for way in EVALUATIONS:
        found = summed(trapezoidal(num_nodes, way), mean, deviation)
        # The theory of the rule, for an entire function that grows as cosh(0.8·2π/h) does.
        error = 4.0 * np.exp(-2.0 * np.pi**2 / step**2) * np.cosh(1.6 * np.pi / step) + 1e-13
        np.testing.assert_allclose(found, np.cos(mean) * np.exp(-0.32), atol=error)


@pytest.mark.parametrize(
    ("rule", "written_out"),
    [
        (trapezoidal(136, ONE_BY_ONE), 1),
        (trapezoidal(136, IN_GROUPS), 17),
        (trapezoidal(50, IN_GROUPS), 17 + 16),
        (trapezoidal(21, IN_GROUPS), 21),
        (trapezoidal(136, AT_ONCE), 1),
    ],
)
def test_how_often_the_integrand_is_written_out(rule, written_out, never_little):
    """Which decides how long compiling takes."""
    seen = []

    def function(f):
        seen.append(f.shape)
        return jnp.cos(f)

    jax.make_jaxpr(lambda m: integrate(function, m, jnp.ones(()), rule))(jnp.zeros(3))
    # Once more for the shape of the result, except where all nodes are taken at once.
    assert len(seen) == written_out + (rule.evaluation != AT_ONCE)


def test_little_is_evaluated_at_once():
    seen = []

    def function(f):
        seen.append(f.shape)
        return f

    jax.make_jaxpr(lambda m: integrate(function, m, jnp.ones(()), trapezoidal(136)))(jnp.zeros(3))
    assert seen == [(136, 3)]


def test_which_way_each_rule_goes():
    bernoulli = lk.Bernoulli()
    assert bernoulli.rule(np.array([1.0])).evaluation == IN_GROUPS
    assert bernoulli.rule(np.array([1.0]), 67).evaluation == IN_GROUPS
    assert bernoulli.evidence_rule.evaluation == ONE_BY_ONE
    assert lk.Categorical(3).evidence_rule.evaluation == AT_ONCE
    ways = [numbered_rule(number).evaluation for number in range(IS_WIDE + 3)]
    assert ways == [IN_GROUPS] * (IS_WIDE + 1) + [ONE_BY_ONE] * 2
    assert all(rule.evaluation == ONE_BY_ONE for rule in quadrature.finer(trapezoidal(21)))


def test_nodes_and_weights():
    rule = trapezoidal(21)
    np.testing.assert_array_equal(rule.nodes, np.linspace(-8.5, 8.5, 21))
    np.testing.assert_allclose(rule.weights, np.exp(-0.5 * rule.nodes**2) / np.exp(-0.5 * rule.nodes**2).sum())
    assert (nodes_for(np.pi, 0.0), nodes_for(np.pi, 1.0), nodes_for(1.0, 1.0)) == (21, 34, 102)
    assert [len(numbered_rule(number).nodes) for number in range(6)] == [1, 5, 13, 22, 46, 92]
    points = cubature(3)
    np.testing.assert_allclose(points.weights @ points.nodes**2, np.ones(3))


def test_a_rule_is_a_pytree_whose_way_is_static():
    rule = trapezoidal(21, ONE_BY_ONE)
    assert len(jax.tree.leaves(rule)) == 2
    assert jax.tree.map(lambda leaf: leaf, rule).evaluation == ONE_BY_ONE
    with pytest.raises(InputError, match=r"must be one of .*'one by one'.*Got 'somehow'"):
        Rule(np.zeros(1), np.ones(1), "somehow")
    assert Rule(np.zeros(1), np.ones(1)).evaluation == IN_GROUPS


def test_a_file_cannot_hold_another_way():
    rule = trapezoidal(21)
    assert _problem(rule) is None
    object.__setattr__(rule, "evaluation", "somehow")
    assert "its evaluation must be one of" in _problem(rule)
