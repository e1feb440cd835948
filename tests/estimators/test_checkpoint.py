"""A fit that is interrupted and taken up again ends as one that is not, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import kosambi as ko
from kosambi._core.journal import Book
from kosambi.errors import FileError, InputError


class Stop(BaseException):
    """Comes at a moment that a test has chosen."""


@pytest.fixture
def interruptions(monkeypatch):
    """Stops a fit after as many new answers as it is told; counts them."""

    class Counter:
        count, most = 0, 10**9

        def begin(self, most=10**9):
            self.count, self.most = 0, most

    counter, add = Counter(), Book.add

    def counted(book, *arguments):
        add(book, *arguments)
        counter.count += 1
        if counter.count >= counter.most:
            raise Stop

    monkeypatch.setattr(Book, "add", counted)
    return counter


def rows(number, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(number, 2))
    return x, np.sin(2.0 * x[:, 0]) + x[:, 1], generator


def case(name):
    """An estimator, x and y."""
    x, f, generator = rows({"average": 60, "labels": 60, "gaussian": 40}.get(name, 90))
    given = {"kernel": "matern52", "n_samples": 10, "hyperparameters": "evidence", "progress": False}
    real, counts = f + 0.1 * generator.normal(size=len(f)), generator.poisson(np.exp(0.5 * f)).astype(float)
    regressor = ko.ProjectedLangevinRegressor
    cases = {
        "average": (lambda: regressor(**given | {"hyperparameters": "average"}), real),
        "gaussian": (lambda: regressor(**given), real),
        "families": (lambda: regressor(**given | {"kernel": None}), real),
        "points": (lambda: regressor(**given, n_inducing=12), real),
        "counts": (lambda: regressor("poisson", **given), counts),
        "near": (lambda: regressor("poisson", **given, n_inducing=10, n_neighbors=5), counts),
        "tails": (lambda: regressor("student_t", **given), real),
        "diffusion": (lambda: regressor("poisson", **given, sampler="euler_maruyama", n_inducing=8), counts),
        "labels": (lambda: ko.ProjectedLangevinClassifier(**given | {"hyperparameters": "average"}), real > 0),
        "hmc": (lambda: ko.ProjectedLangevinClassifier(**given, n_inducing=10, sampler="hmc"), real > 0),
        "paper": (lambda: regressor(**given | {"hyperparameters": "paper"}), real),
    }
    make, y = cases[name]
    return make(), x, y


def found(model, x):
    """All that a fit has drawn, and its predictions."""
    parts = getattr(model.posterior_, "components", [model.posterior_])
    draws = [np.asarray(part.particles.whitened) for part in parts]
    predicted = model.predict_proba(x) if hasattr(model, "classes_") else np.stack(model.predict(x, return_std=True))
    return [*draws, predicted, model.report_.energy]


def is_same(first, second):
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(first, second, strict=True))


QUICK = ("gaussian",)
OTHERS = "average", "families", "points", "counts", "near", "tails", "diffusion", "labels", "hmc", "paper"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_interrupted_again_and_again_a_fit_ends_the_same(name, interruptions, tmp_path):
    model, x, y = case(name)
    truth = found(model.fit(x, y), x)
    place = tmp_path / "fit"
    interruptions.begin()
    assert is_same(found(model.fit(x, y, checkpoint=place), x), truth)
    total, times = interruptions.count, 0
    assert total > 10
    while True:
        interruptions.begin(max(1, total // (4 if name in QUICK else 12)))
        try:
            model.fit(x, y, checkpoint=place)
            break
        except Stop:
            times += 1
            assert (place / "about.json").exists()
    assert times >= 3
    assert is_same(found(model, x), truth)
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["families", "counts", "tails"])
def test_interrupted_after_any_answer_a_fit_ends_the_same(name, interruptions, tmp_path):
    """Every boundary between two stages is among them."""
    model, x, y = case(name)
    interruptions.begin()
    truth = found(model.fit(x, y, checkpoint=tmp_path / "fit"), x)
    total = interruptions.count
    for most in np.unique(np.linspace(1, total - 1, 40).astype(int)):
        interruptions.begin(int(most))
        with pytest.raises(Stop):
            model.fit(x, y, checkpoint=tmp_path / "fit")
        interruptions.begin()
        assert is_same(found(model.fit(x, y, checkpoint=tmp_path / "fit"), x), truth)
        assert interruptions.count == total - most


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_another_fit_is_refused_and_says_why(interruptions, tmp_path):
    model, x, y = case("gaussian")
    interruptions.begin(5)
    with pytest.raises(Stop) as caught:
        model.fit(x, y, checkpoint=tmp_path / "fit")
    assert "the same call goes on from there" in caught.value.__notes__[0]
    interruptions.begin()
    with pytest.raises(FileError, match=r"n_samples \(10 then, 11 now\)"):
        model.set_params(n_samples=11).fit(x, y, checkpoint=tmp_path / "fit")
    model.set_params(n_samples=10)
    with pytest.raises(FileError, match="Different: y"):
        model.fit(x, y + 1e-12, checkpoint=tmp_path / "fit")
    with pytest.raises(FileError, match="Different: sample_weight"):
        model.fit(x, y, np.full(len(y), 2.0), checkpoint=tmp_path / "fit")
    # What is shown changes nothing.
    model.set_params(progress=None).fit(x, y, checkpoint=tmp_path / "fit")
    assert not (tmp_path / "fit").exists()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.slow
def test_a_fit_without_a_seed_goes_on_with_its_own(interruptions, tmp_path):
    """And with sampling alone."""
    model, x, y = case("gaussian")
    model.set_params(random_state=None, hyperparameters=None, kernel=ko.kernels.Matern52(), likelihood="poisson")
    model.set_params(n_inducing=8)
    y = np.round(np.exp(y))
    interruptions.begin(3)
    with pytest.raises(Stop):
        model.fit(x, y, checkpoint=tmp_path / "fit")
    interruptions.begin()
    model.fit(x, y, checkpoint=ko.Checkpoint(tmp_path / "fit", stays=True))
    first = found(model, x)
    assert is_same(found(model.fit(x, y, checkpoint=tmp_path / "fit"), x), first)
    assert not is_same(found(model.fit(x, y, checkpoint=tmp_path / "fit"), x), first)


def test_what_cannot_be_kept_is_refused(tmp_path):
    model, x, y = case("gaussian")
    with pytest.raises(InputError, match="random_state"):
        model.set_params(random_state=np.random.default_rng(0)).fit(x, y, checkpoint=tmp_path / "fit")
    assert not (tmp_path / "fit").exists()


FIT = """
import sys, warnings
import numpy as np, kosambi as ko
warnings.simplefilter("ignore")
generator = np.random.default_rng(0)
x = generator.normal(size=(150, 2))
y = generator.poisson(np.exp(np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1])).astype(float)
model = ko.ProjectedLangevinRegressor("poisson", n_samples=10)
model.fit(x, y, checkpoint=ko.Checkpoint(sys.argv[1], every=0.2))
np.save(sys.argv[2], np.stack(model.predict(x, return_std=True)))
"""


@pytest.mark.slow
def test_killed_at_random_moments_a_fit_ends_the_same(tmp_path):
    def start():
        command = [sys.executable, "-c", FIT, str(tmp_path / "fit"), str(tmp_path / "found.npy")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    begin = time.perf_counter()
    assert start().wait() == 0
    seconds, truth = time.perf_counter() - begin, np.load(tmp_path / "found.npy")
    generator, kills = np.random.default_rng(0), 0
    for _ in range(4):
        os.remove(tmp_path / "found.npy")
        while not (tmp_path / "found.npy").exists():
            child = start()
            child.stdout.readline()
            try:
                child.wait(generator.uniform(0.0, 0.7 * seconds))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                kills += 1
            child.communicate()
        assert np.array_equal(np.load(tmp_path / "found.npy"), truth)
        assert not (tmp_path / "fit").exists()
    assert kills > 3
