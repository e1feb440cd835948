"""A fit of a source that is interrupted, also in the middle of a pass, and taken up again ends as one that is not."""

from __future__ import annotations

import os

import numpy as np
import pytest

import kosambi as ko
from kosambi._core.journal import Book
from kosambi.errors import FileError, InputError
from kosambi.learning import memory as sizes
from kosambi.sources import ArraySource, BlockSource, ParquetSource, memory, passes, sweeps
from kosambi.streaming import held
from kosambi.streaming import rows as streaming_rows

RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
NEW = RNG.normal(size=(15, 2))
KERNEL = ko.kernels.Matern52(lengthscale=1.5)
# Three classes too: costs that are not convex have two matrices.
Y = {
    "gaussian": F + 0.3 * RNG.normal(size=N),
    "poisson": RNG.poisson(np.exp(0.4 * F)).astype(float),
    "labels": (F > 0.3).astype(float),
    "student_t": F + 0.3 * RNG.standard_t(4.0, size=N),
}


class Stop(BaseException):
    """Comes at a moment that a test has chosen."""


@pytest.fixture
def cut(monkeypatch):
    """Four blocks in a pass, each of them an answer; `cut.most` is the answer after which the fit ends."""
    monkeypatch.setattr(memory, "AT_ONCE", 256)
    monkeypatch.setattr(passes, "AT_ONCE", 256)
    monkeypatch.setattr(memory, "MOST_SAMPLED", 512)
    monkeypatch.setattr(sweeps, "STRETCH", 0.0)

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


def case(name, learned=False):
    options = {"n_samples": 16, "n_inducing": 8, "progress": False, "kernel": KERNEL}
    options["hyperparameters"] = "evidence" if learned else None
    if name == "labels":
        return ko.ProjectedLangevinClassifier(**options), ArraySource(X, Y[name])
    return ko.ProjectedLangevinRegressor(name, **options), ArraySource(X, Y[name])


def found(model):
    """Draws, predictions and what was reported of passes."""
    predicted = (
        model.predict_proba(NEW) if hasattr(model, "classes_") else np.stack(model.predict(NEW, return_std=True))
    )
    stream = model.report_.stream
    numbers = np.array([stream.num_rows, stream.passes, stream.steps, stream.block_rows, stream.pareto_k])
    return [np.asarray(model.posterior_.particles.whitened), predicted, model.report_.energy, numbers]


def is_same(first, second):
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(first, second, strict=True))


def check(name, cut, place, number, learned=False):
    """Interrupted after each of `number` answers, and then again and again."""
    model, source = case(name, learned)
    truth = found(model.fit(source))
    cut.begin()
    assert is_same(found(model.fit(source, checkpoint=place)), truth)
    total = cut.count
    for most in np.unique(np.linspace(1, total - 1, number).astype(int)):
        cut.begin(int(most))
        with pytest.raises(Stop):
            model.fit(source, checkpoint=place)
        cut.begin()
        assert is_same(found(model.fit(source, checkpoint=place)), truth)
        # Sampling is cut by the clock, and threads that learn side by side have found more when one of them ends.
        if name == "gaussian" and not learned:
            assert cut.count == total - most
        assert not place.exists()
    times = 0
    while True:
        cut.begin(max(1, total // 4))
        try:
            model.fit(source, checkpoint=place)
            break
        except Stop:
            times += 1
    assert times >= 3
    assert is_same(found(model), truth)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_interrupted_in_the_middle_of_passes_a_fit_ends_the_same(cut, tmp_path):
    check("labels", cut, tmp_path / "fit", 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", list(Y))
def test_interrupted_after_any_answer_a_fit_ends_the_same(name, learned, cut, tmp_path):
    check(name, cut, tmp_path / "fit", 8 if learned else 15, learned)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_steps_over_all_rows_go_on(cut, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming_rows, "EVEN", 0.0)
    monkeypatch.setattr(streaming_rows, "LARGEST_PARETO_K", -np.inf)
    check("poisson", cut, tmp_path / "fit", 15)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["gaussian", "labels"])
@pytest.mark.slow
def test_rows_that_are_held_go_on_with_the_memory_that_there_was(name, cut, tmp_path, monkeypatch):
    """Learned hyperparameters, neighbours, sites; in a second process other programs take other memory."""
    model, source = case(name, learned=True)
    model.set_params(n_neighbors=6)
    monkeypatch.setattr(held, "BLOCK", 256)
    truth = found(model.fit(source, max_memory="3GB"))
    assert model.report_.stream.is_held
    cut.begin()
    place, looks = tmp_path / "fit", []

    def resident():
        looks.append(None)
        return 10**9 + 10**7 * len(looks)

    for module in (held, sizes):
        monkeypatch.setattr(module, "resident", resident)
    assert is_same(found(model.fit(source, max_memory="3GB", checkpoint=place)), truth)
    total, number = cut.count, len(looks)
    assert number
    for most in np.unique(np.linspace(1, total - 1, 8).astype(int)):
        cut.begin(int(most))
        looks.clear()
        with pytest.raises(Stop):
            model.fit(source, max_memory="3GB", checkpoint=place)
        cut.begin()
        assert is_same(found(model.fit(source, max_memory="3GB", checkpoint=place)), truth)
        # What was looked at before is not looked at again.
        assert len(looks) == number
        assert not place.exists()


def begun(model, source, place, cut, most=6):
    """A checkpoint of a fit that was interrupted."""
    cut.begin(most)
    with pytest.raises(Stop):
        model.fit(source, checkpoint=place)
    cut.begin()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_file_that_has_changed_is_refused_and_says_how(cut, tmp_path):
    import pandas as pd

    model, _ = case("gaussian")
    path, place = tmp_path / "rows.parquet", tmp_path / "fit"
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y["gaussian"]})
    table.to_parquet(path, index=False)
    begun(model, ParquetSource(path, target="y"), place, cut)
    with pytest.raises(FileError, match=r"max_memory \(None then, '8GB' now\)"):
        model.fit(ParquetSource(path, target="y"), max_memory="8GB", checkpoint=place)
    with pytest.raises(FileError, match="the target"):
        model.fit(ParquetSource(path, target="a"), checkpoint=place)
    os.utime(path, (0, 0))
    with pytest.raises(FileError, match=r"the time when the file was written \(20.* then, 1970-01-01"):
        model.fit(ParquetSource(path, target="y"), checkpoint=place)
    table[:-1].to_parquet(path, index=False)
    with pytest.raises(FileError, match=r"the number of rows in the file \(900 then, 899 now\)"):
        model.fit(ParquetSource(path, target="y"), checkpoint=place)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("most", [3, 8])
def test_rows_that_have_changed_behind_the_first_ones_are_refused(most, cut, tmp_path):
    """In the first pass, and after it: what a function gives has no date."""
    model, _ = case("gaussian")
    y, place = Y["gaussian"].copy(), tmp_path / "fit"
    source = BlockSource(lambda: ((X[i : i + 300], y[i : i + 300]) for i in range(0, N, 300)))
    begun(model, source, place, cut, most)
    y[400] += 1e-12
    with pytest.raises(
        InputError, match=r"which an earlier run made: other values, .* in rows 256 to 511.*remove the c"
    ):
        model.fit(source, checkpoint=place)
    y[400] = Y["gaussian"][400]
    model.fit(source, checkpoint=place)
    assert not place.exists()


def test_rows_that_are_refused_at_the_first_attempt_leave_no_checkpoint(tmp_path):
    model, _ = case("gaussian")
    with pytest.raises(InputError, match="row 899"):
        model.fit(ArraySource(X, np.r_[Y["gaussian"][:-1], np.nan]), checkpoint=tmp_path / "fit")
    assert not (tmp_path / "fit").exists()
    (tmp_path / "fit" / "process-0").mkdir(parents=True)
    with pytest.raises(FileError, match="a fit in several processes"):
        model.fit(ArraySource(X, Y["gaussian"]), checkpoint=tmp_path / "fit")
