"""Functions and classes of the user's, paths, and writing in one go."""

from __future__ import annotations

import os
import pathlib
import stat
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import FileError, InputError
from kosambi.files import _container
from tests.files.helpers import assert_identical, through_file
from tests.files.models import log_cosh

X = np.linspace(-1.0, 1.0, 10)[:, None]


class Cubic(ko.kernels.AbstractKernel):
    name: ClassVar[str | None] = "cubic"

    scale: np.ndarray
    power: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        if np.any(np.asarray(self.scale) < 0):
            raise ValueError("scale below zero")

    def pairwise(self, x, z):
        return self.scale * jnp.power(1.0 + x @ z.T, self.power)

    def pointwise(self, x):
        return self.scale * jnp.power(1.0 + jnp.sum(x * x, axis=1), self.power)


class Unnamed(Cubic):
    pass


class Nameless(ko.kernels.SquaredExponential):
    pass


class Line(eqx.Module):
    name: ClassVar[str] = "line"
    slope: np.ndarray

    def __call__(self, x):
        return self.slope * x[:, 0]


class Squared(ko.likelihoods.Gaussian):
    name: ClassVar[str] = "squared"


def trend(x):
    return 2.0 * x[:, 0]


KERNEL = ko.kernels.Matern52()


def test_a_kernel_of_ones_own(tmp_path):
    prior = ko.GaussianProcess(Cubic(np.array(0.5), 2) + 0.1 * Cubic(np.array(0.5)))
    copy = through_file(prior, tmp_path, {"cubic": Cubic})
    assert_identical(prior, copy)
    assert prior.covariance(X).tobytes() == copy.covariance(X).tobytes()


def test_a_likelihood_of_ones_own(tmp_path):
    target = ko.Target(ko.PointBasis(ko.GaussianProcess(KERNEL), X[::3]), Squared(0.2), X, X[:, 0])
    assert_identical(target, through_file(target, tmp_path, {"squared": Squared}))


@pytest.mark.parametrize("mean", [ko.Named("trend", trend), Line(np.array(3.0))], ids=["function", "module"])
def test_a_mean_of_ones_own(mean, tmp_path):
    basis = ko.PointBasis(ko.GaussianProcess(KERNEL, mean=mean), X[::3])
    target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), X, X[:, 0])
    posterior = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, np.ones((3, 4))))
    copy = through_file(posterior, tmp_path, {"trend": trend} if isinstance(mean, ko.Named) else {"line": Line})
    assert_identical(posterior, copy)
    assert posterior.predict(X).mean.tobytes() == copy.predict(X).mean.tobytes()


def test_a_mean_that_is_kosambis_needs_no_name(tmp_path):
    element = ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X))
    prior = ko.GaussianProcess(KERNEL, mean=element.apply_covariance(trend))
    assert_identical(prior, through_file(prior, tmp_path))


def test_bad_input_functions_and_classes_without_a_name(tmp_path):
    path = tmp_path / "m.kosambi"
    cases = [
        (ko.likelihoods.Custom(log_cosh), r"Custom\(function, name='mine'\)"),
        (ko.likelihoods.CustomJoint(log_cosh), r"CustomJoint\(function, name='mine'\)"),
        (ko.GaussianProcess(KERNEL, mean=trend), r"kosambi\.Named\('trend', function\)"),
        (Unnamed(np.array(1.0)), "`Unnamed` is a class of your own"),
        (ko.GaussianProcess(Nameless(0.5)), "`Nameless` is a class of your own"),
        (trend, "is a function"),
        ({"a": object()}, "of type object"),
        ({1: 2.0}, "of type dict"),
        ({"key": jax.random.key(0)}, "random key"),
        (np.array(["text"]), "real numbers"),
        (np.array([1j]), "real numbers"),
        (2**80, "64 bits"),
        (Cubic, "is a function|of type"),
    ]
    for thing, message in cases:
        with pytest.raises(InputError, match=message):
            ko.save(thing, path)
    assert list(tmp_path.iterdir()) == []


def test_bad_input_two_things_of_one_name(tmp_path):
    pair = (ko.Named("a", trend), ko.Named("a", lambda x: x[:, 0]))
    with pytest.raises(InputError, match="Two different"):
        ko.save(pair, tmp_path / "m.kosambi")


def test_bad_input_an_object_that_would_not_load_is_not_saved(tmp_path):
    wrong = eqx.tree_at(lambda kernel: kernel.variance, KERNEL, np.array(-1.0))
    with pytest.raises(InputError, match="positive"):
        ko.save(wrong, tmp_path / "m.kosambi")
    deep = KERNEL
    for _ in range(120):
        deep = (deep * 2.0) + 1.0
    with pytest.raises(InputError, match="deep"):
        ko.save(deep, tmp_path / "m.kosambi")


def test_bad_input_custom_parts_that_do_not_fit(tmp_path):
    path = tmp_path / "m.kosambi"
    ko.save((Cubic(np.array(0.5)), ko.Named("trend", trend)), path)
    with pytest.raises(FileError, match=r"'cubic', 'trend'.*custom=\{'cubic': \.\.\., 'trend': \.\.\.\}"):
        ko.load(path)
    with pytest.raises(FileError, match="'trend'"):
        ko.load(path, {"cubic": Cubic})
    with pytest.raises(InputError, match="'other'"):
        ko.load(path, {"cubic": Cubic, "trend": trend, "other": 1})
    for wrong in (trend, 3, KERNEL, ko.kernels.AbstractKernel):
        with pytest.raises(FileError, match="must be the class"):
            ko.load(path, {"cubic": wrong, "trend": trend})
    for wrong in ("text", None, Cubic):
        with pytest.raises(FileError, match="must be the function"):
            ko.load(path, {"cubic": Cubic, "trend": wrong})
    with pytest.raises(FileError, match="has the fields"):
        ko.load(path, {"cubic": Line, "trend": trend})
    for wrong in ([1], {1: trend}, "trend"):
        with pytest.raises(InputError, match="dictionary"):
            ko.load(path, wrong)
    ko.save(ko.GaussianProcess(Cubic(np.array(0.5))), path)
    other = type("Other", (eqx.Module,), {"__annotations__": {"scale": np.ndarray, "power": int}})
    with pytest.raises(FileError, match="AbstractKernel"):
        ko.load(path, {"cubic": other})


def test_bad_input_checks_of_ones_own_class_are_asked(tmp_path):
    kernel = eqx.tree_at(lambda k: k.scale, Cubic(np.array(0.5)), np.array(-0.5))
    with pytest.raises(InputError, match="scale below zero"):
        ko.save(kernel, tmp_path / "m.kosambi")


def test_bad_input_names():
    for name in ("", 3):
        with pytest.raises(InputError, match="name"):
            ko.likelihoods.Custom(log_cosh, name=name)
        with pytest.raises(InputError, match="name"):
            ko.likelihoods.CustomJoint(log_cosh, name=name)
        with pytest.raises(InputError, match="name"):
            ko.Named(name, trend)
    with pytest.raises(InputError, match="function"):
        ko.Named("a", 3)


def test_bad_input_paths(tmp_path):
    for wrong in (3, None, b"bytes", "", "a\0b"):
        with pytest.raises(InputError, match="path"):
            ko.save(KERNEL, wrong)
        with pytest.raises(InputError, match="path"):
            ko.load(wrong)
    with pytest.raises(FileError, match="make it first"):
        ko.save(KERNEL, tmp_path / "none" / "k.kosambi")
    with pytest.raises(FileError, match="is a directory"):
        ko.save(KERNEL, tmp_path)
    with pytest.raises(FileError, match="no regular file"):
        ko.save(KERNEL, os.devnull)
    with pytest.raises(FileError, match="No such file"):
        ko.load(tmp_path / "none.kosambi")
    with pytest.raises(FileError, match="directory"):
        ko.load(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileError, match="cannot be written"):
        ko.save(KERNEL, tmp_path / "file" / "k.kosambi")
    with pytest.raises(FileError, match="cannot be read"):
        ko.load(tmp_path / "file" / "k.kosambi")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="no regular file"):
        ko.load(tmp_path / "pipe")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "pipe"]


def test_paths_of_either_sort(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("plain", pathlib.Path("with.suffix"), str(tmp_path / "ünïcode file"), "x" * 200):
        ko.save(KERNEL, path)
        assert_identical(KERNEL, ko.load(path))


def broken(stage, monkeypatch):
    """Break one stage of writing, in the middle."""

    def fail(*args, **kwargs):
        if stage == "write":
            args[0].write(b"half")
        raise OSError(28, "No space left on device")

    where = {"write": (_container, "_write"), "sync": (os, "fsync"), "replace": (os, "replace")}
    monkeypatch.setattr(*where[stage], fail)


@pytest.mark.parametrize("stage", ["write", "sync", "replace"])
def test_a_failure_leaves_the_old_file(stage, tmp_path, monkeypatch):
    path = tmp_path / "k.kosambi"
    ko.save(KERNEL, path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        broken(stage, patch)
        with pytest.raises(FileError, match="No space left"):
            ko.save(ko.kernels.Linear(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["k.kosambi"]


def test_an_interruption_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ko.save(KERNEL, tmp_path / "k.kosambi")
    assert list(tmp_path.iterdir()) == []


def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "k.kosambi", tmp_path / "link"
    ko.save(KERNEL, path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    ko.save(ko.kernels.Linear(), link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert isinstance(ko.load(path), ko.kernels.Linear)


def test_what_cannot_be_saved_can_be_known_before_the_work():
    class Unnamed(ko.kernels.Matern52):
        pass

    for value in (Unnamed(1.0), ko.GaussianProcess(Unnamed(1.0)), ko.ProjectedLangevinRegressor(kernel=Unnamed(1.0))):
        with pytest.raises(InputError, match="`Unnamed` is a class of your own"):
            ko.files.check_saveable(value)
    with pytest.raises(InputError, match="`random_state` is a generator"):
        ko.files.check_saveable(ko.ProjectedLangevinRegressor(random_state=np.random.RandomState(0)))
    ko.files.check_saveable(ko.ProjectedLangevinClassifier(kernel=ko.kernels.Matern52()))
    ko.files.check_saveable(ko.likelihoods.Custom(lambda y, f: y - f, name="difference"))
