"""One short walk through every door of the package: what `make test-oldest` runs with the lowest versions allowed."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest

import kosambi as ko

# Among the slow ones, since the other tests look at each of these things more closely.
pytestmark = [pytest.mark.smoke, pytest.mark.slow]
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-3.0, 3.0, (40, 1)), axis=0)
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
LABELS = (Y > 0).astype(float)
KERNEL = ko.kernels.Matern52(0.8, 2.0)


def inferred(sampler, **settings):
    likelihood, y = (
        (ko.likelihoods.Gaussian(0.1), Y) if sampler == "exact" else (ko.likelihoods.Bernoulli("probit"), LABELS)
    )
    settings = {"num_inducing": 6, "num_particles": 30} | settings
    return ko.infer(jax.random.key(0), KERNEL, likelihood, X, y, sampler=sampler, **settings)


# Whether a run of the diffusion converges in its usual number of steps is not the question here.
@pytest.mark.filterwarnings("ignore::kosambi.errors.ConvergenceWarning")
@pytest.mark.parametrize("sampler", ["auto", "exact", "mala", "hmc", "euler_maruyama", "tempering"])
def test_every_sampler(sampler):
    if sampler == "euler_maruyama":
        with pytest.warns(ko.errors.ConvergenceWarning, match="Take more steps"):
            posterior = inferred(ko.samplers.EulerMaruyama(num_steps=200))
    else:
        posterior = inferred(sampler)
    p = posterior.predict(X[[0, -1]])
    assert p.mean.shape == p.variance.shape == (2,)
    assert np.all(p.variance > 0)
    assert posterior.functions(jax.random.key(1))(X[:3]).shape == (30, 3)
    if sampler != "exact":
        assert np.all((p.probability > 0) & (p.probability < 1))


@pytest.mark.parametrize("basis", ["point", "ritz", "nystrom", "inducing"])
def test_every_basis(basis):
    prior = ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X))
    posterior = ko.infer(
        jax.random.key(0), prior, ko.likelihoods.Gaussian(0.1), X, Y, num_inducing=6, num_particles=10, basis=basis
    )
    assert np.all(np.isfinite(posterior.predict(X).mean))


def test_estimators_fit_predict_and_are_saved(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0]})
    regressor = ko.ProjectedLangevinRegressor(n_inducing=8, n_samples=30).fit(frame, Y)
    _, deviation = regressor.predict(frame, return_std=True)
    assert regressor.score(frame, Y) > 0.9
    assert np.all(deviation > 0)
    classifier = ko.ProjectedLangevinClassifier(n_inducing=8, n_samples=30).fit(frame, np.where(Y > 0, "up", "down"))
    assert classifier.predict_proba(frame).shape == (40, 2)
    for model in (regressor, classifier):
        path = tmp_path / f"{type(model).__name__}.kosambi"
        ko.save(model, path)
        np.testing.assert_array_equal(ko.load(path).predict(frame), model.predict(frame))


def test_hyperparameters_and_files(tmp_path):
    kernel, likelihood, report = ko.fit_hyperparameters(
        jax.random.key(0), KERNEL, ko.likelihoods.StudentT(), X, Y, num_inducing=6, max_iterations=5
    )
    assert np.isfinite(report.objective)
    posterior = ko.infer(jax.random.key(0), kernel, likelihood, X, Y, num_inducing=6, num_particles=30)
    posterior.save(tmp_path / "posterior.kosambi")
    again = ko.load(tmp_path / "posterior.kosambi")
    np.testing.assert_array_equal(again.predict(X).mean, posterior.predict(X).mean)


def test_arviz_plots_and_page(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    posterior = inferred("mala")
    pytest.importorskip("arviz")
    assert posterior.to_arviz()["posterior"]["u"].shape[-1] == 6
    figure = ko.plots.posterior(posterior).figure
    figure.savefig(tmp_path / "posterior.png")
    assert (tmp_path / "posterior.png").stat().st_size > 1000


def test_the_command_line(tmp_path):
    pd.DataFrame({"x": X[:, 0], "colour": np.resize(["red", "blue"], 40), "y": Y}).to_parquet(
        tmp_path / "table.parquet"
    )

    def kosambi(*arguments):
        command = [sys.executable, "-m", "kosambi", *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    how = ("-t", "y", "--inducing", "8", "--samples", "20", "--json")
    assert json.loads(kosambi("fit", tmp_path / "table.parquet", "--out", tmp_path / "run", *how))
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    kosambi("predict", tmp_path / "run", tmp_path / "table.parquet", "-o", tmp_path / "predictions.csv")
    assert np.corrcoef(pd.read_csv(tmp_path / "predictions.csv")["mean"], Y)[0, 1] > 0.9
