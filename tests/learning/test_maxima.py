"""Which of several maxima of the evidence goes on: rows that are left out have a say."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.progress import Progress
from kosambi.learning import without_points
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.search import Minimum, Record
from kosambi.learning.task import Task
from kosambi.learning.without_points import WithoutPoints

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 1))
F = np.sin(3.0 * X[:, 0])
CASES = {
    "numbers": (ko.likelihoods.Gaussian(0.1), F + 0.1 * RNG.normal(size=60)),
    "counts": (ko.likelihoods.Poisson(), RNG.poisson(np.exp(2.0 * F)).astype(float)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_end_that_predicts_rows_left_out_much_better_is_taken_unless_it_loses_more(name, monkeypatch):
    likelihood, y = CASES[name]
    kernel = ko.kernels.SquaredExponential(0.6)
    given = Model(kernel, np.zeros(()), likelihood)
    prior = ko.GaussianProcess(kernel)
    task = Task(
        np.random.default_rng(0), prior, likelihood, X, y, None, lay_out(given), 50, 2, Record(), Progress(False)
    )
    strategy = WithoutPoints(task)
    good, poor = (task.layout.vector(given._replace(kernel=ko.kernels.SquaredExponential(s))) for s in (0.6, 40.0))

    def chosen(loss):
        """With evidences as they are claimed to be: the good one is lower by `loss` nats."""
        ends = [(Minimum(poor, 0.0, 0.0 * poor, 1, True), 0.0, given)]
        ends += [(Minimum(good, loss, 0.0 * good, 1, True), 0.0, given)]
        with jax.enable_x64(True):
            return strategy._best(ends)[0].vector

    assert chosen(5.0) is good
    assert chosen(1e4) is poor
    # Nothing is gained by one that is worse in both.
    assert chosen(-5.0) is good
    # Nor by one of which too few rows speak.
    monkeypatch.setattr(without_points, "FEWEST_CHECKED", len(X) + 1)
    assert chosen(5.0) is poor
