"""What is saved comes back bit for bit, in this process and in another one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import typing

import jax
import numpy as np
import pytest
import safetensors.numpy

import kosambi as ko
from kosambi.files._registry import fields_of, names, registry
from tests.files.helpers import assert_identical, contents, header_of, through_file
from tests.files.models import MODELS, NORMAL, PROCESS, X, custom_of, posterior
from tests.likelihoods.table import CASES, SEVERAL
from tests.tables import BASES, KERNELS, MEASURES, PRIORS

LIKELIHOODS = {name: case.likelihood for name, case in {**CASES, **SEVERAL}.items() if name != "Custom"}
SAMPLERS = {
    "MALA": ko.samplers.MALA(0.6, max_steps=77),
    "HMC": ko.samplers.HMC(max_leapfrog=3, initial=np.zeros((2, 3))),
    "EulerMaruyama": ko.samplers.EulerMaruyama(step_size=1e-3, num_steps=10),
    "Exact": ko.samplers.Exact(),
    "StochasticGradient": ko.samplers.StochasticGradient(7, 0.2, metropolis=True),
}
OBJECTS = {**KERNELS, **MEASURES, **PRIORS, **BASES, **LIKELIHOODS, **SAMPLERS}


@pytest.mark.parametrize("name", OBJECTS)
def test_every_public_object_comes_back(name, tmp_path):
    assert_identical(OBJECTS[name], through_file(OBJECTS[name], tmp_path))


@pytest.mark.parametrize("name", MODELS)
def test_posteriors_come_back(name, tmp_path):
    original = posterior(name)
    path = tmp_path / "m.kosambi"
    original.save(path)
    copy = ko.load(path, custom_of(name))
    assert_identical(original, copy)
    assert copy.report == original.report
    if name in ("Bernoulli, Ritz", "Categorical"):
        assert_identical(original.predict(X), copy.predict(X))


def test_classes_without_declared_fields_are_stored_whole():
    """A new attribute of these must be added to the list in `kosambi.files._registry`."""
    original = posterior("Bernoulli, Ritz")
    assert set(vars(original)) == set(fields_of(ko.Posterior))
    prediction = ko.Prediction(original.likelihood, np.zeros((2, 3)), np.ones(3), np.ones(3))
    assert set(vars(prediction)) == set(fields_of(ko.Prediction))


def test_what_is_shared_stays_shared(tmp_path):
    original = posterior("StudentT, optimal")
    prior, likelihood, copy = through_file((original.prior, original.likelihood, original), tmp_path)
    assert copy.prior is prior
    assert copy.likelihood is likelihood
    assert copy.target.term.likelihood is likelihood
    assert copy.target.term.y is copy.target.y
    assert copy.target.y is not copy.target.weights


def test_every_class_is_on_the_list():
    """What is new is there too."""
    roots = [
        ko.kernels.AbstractKernel,
        ko.likelihoods.AbstractLikelihood,
        ko.measures.AbstractMeasure,
        ko.priors.AbstractPrior,
        ko.basis.AbstractBasis,
        ko.samplers.AbstractSampler,
        ko.basis.residual.AbstractResidual,
        ko.target.AbstractDataTerm,
        ko.priors.base.AbstractExpansion,
    ]
    found = set()
    while roots:
        root = roots.pop()
        roots += root.__subclasses__()
        # A kernel whose family is open exists inside a search only, a term on several devices inside a run of steps.
        elsewhere = ("kosambi.learning.", "kosambi.parallel.")
        is_kept = root.__module__.startswith("kosambi.") and not root.__module__.startswith(elsewhere)
        # Classes that examples in docstrings define are in no module, whatever they say.
        is_kept = is_kept and getattr(sys.modules[root.__module__], root.__name__, None) is root
        if is_kept and not root.__name__.startswith(("Abstract", "_")):
            found.add(root)
    assert found - set(registry().values()) == set()
    # Each has one name, so that it is always written under the same one.
    assert len(names()) == len(registry())


@pytest.mark.parametrize("name", registry())
def test_fields_have_annotations_that_can_be_checked(name):
    free = {field for field, annotation in fields_of(registry()[name]).items() if annotation is typing.Any}
    # A number or any callable, which the checks of priors and draws look at.
    is_mean = name.startswith(("priors.", "draws.")) or name == "posterior.AveragedDraws"
    assert free <= ({"mean"} if is_mean else set())


def test_draws_and_predictions_come_back(tmp_path):
    for name in ("Bernoulli, Ritz", "Poisson, Nystrom"):
        original = posterior(name)
        draws = original.functions(jax.random.key(1))
        copy = through_file(draws, tmp_path)
        assert_identical(draws, copy)
    assert draws(X).tobytes() == copy(X).tobytes()
    # Its target was rebuilt, so that the likelihood of the data term is a copy of the target's.
    matheron = original.functions(jax.random.key(1), method="matheron")
    assert_identical(matheron, through_file(matheron, tmp_path))
    prediction = original.predict(X)
    assert_identical(prediction, through_file(prediction, tmp_path))
    for prior in (PROCESS, NORMAL):
        draws = prior.draw(jax.random.key(2), 3, **({"num_columns": 2} if prior is PROCESS else {}))
        assert_identical(draws, through_file(draws, tmp_path))


def test_reports_come_back(tmp_path):
    basis = posterior("Bernoulli, Ritz").basis
    assert_identical(basis.report, through_file(basis.report, tmp_path))
    selection = ko.inducing.greedy_variance(ko.kernels.Matern52(), X, 4)
    assert_identical(selection, through_file(selection, tmp_path))
    values = {
        float: float("nan"),
        int: 3,
        bool: True,
        str: "ü",
        tuple[str, ...]: ("a",),
        tuple[float, ...]: (1.0, -0.0, float("-inf")),
    }
    hints = typing.get_type_hints(ko.FitReport)
    given = {field.name: values.get(hints[field.name]) for field in dataclasses.fields(ko.FitReport)}
    given |= {
        "parameters": {"kernel.variance": np.array(2.0)},
        "trace": np.arange(4.0),
        "inducing_points": X[:3].copy(),
        "priors": {"kernel.variance": ko.hyperpriors.LogNormal(1.0, 3.0), "mean": ko.hyperpriors.Normal(0.0, 1.0)},
    }
    report = ko.FitReport(**given)
    assert_identical(report, through_file(report, tmp_path))


def test_numbers_keep_their_bits(tmp_path):
    payload = np.array([0x7FF800000000BEEF, 0xFFF0000000000000, 1], dtype=np.uint64).view(np.float64)
    numbers = {
        "special": np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324]),
        "payload": payload,
        "no axes": np.array(-0.0),
        "empty": np.zeros((0, 3)),
        "kinds": [np.arange(5, dtype=kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4")],
        "truth": np.array([[True, False]]),
        "python": (1, -(2**63), 0.1, -0.0, float("inf"), float(payload[0]), None, True, "x\ud800\0é"),
        "numpy": (np.float64(0.1), np.int32(3), np.bool_(True)),
    }
    assert_identical(numbers, through_file(numbers, tmp_path))


def test_fortran_ordered_strided_and_foreign_arrays(tmp_path, rng):
    base = rng.normal(size=(8, 6))
    arrays = {
        "fortran": np.asfortranarray(base),
        "strided": base[::2, ::3],
        "reversed": base[::-1, ::-1],
        "transposed": base.T,
        "repeated": np.broadcast_to(base[0], (3, 6)),
        "big endian": base.astype(">f8"),
        "jax": jax.numpy.asarray(base, dtype=np.float32),
    }
    copy = through_file(arrays, tmp_path)
    for name, array in arrays.items():
        assert copy[name].flags.c_contiguous
        assert copy[name].flags.writeable
        assert copy[name].flags.owndata
        np.testing.assert_array_equal(copy[name], np.asarray(array))
    given = ko.GaussianProcess(ko.kernels.Matern52(np.asfortranarray(np.exp(base))[0, ::3]))
    basis = ko.PointBasis(given, np.asfortranarray(base[:, ::3]))
    assert_identical(basis, through_file(basis, tmp_path))


def test_a_new_process_with_the_switch_off_predicts_the_same_bits(tmp_path):
    code = """
import hashlib, sys, jax, numpy as np, kosambi as ko
assert not jax.config.jax_enable_x64
x = np.linspace(-2.0, 2.0, 12).reshape(6, 2)
for path in sys.argv[1:]:
    p = ko.load(path).predict(x)
    found = [p.mean, p.variance, *p.interval(0.9)] if p.mean.ndim == 1 else [p.mean, p.variance]
    print(hashlib.sha256(b"".join(np.ascontiguousarray(v).tobytes() for v in found)).hexdigest())
"""
    fortran = np.asfortranarray(X)
    basis = ko.PointBasis(PROCESS, fortran[::5])
    target = ko.Target(basis, ko.likelihoods.Gaussian(0.3), fortran, np.repeat(np.sin(X[:, 0]), 2)[::2])
    strided = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=20))
    paths, digests = [], []
    x = np.linspace(-2.0, 2.0, 12).reshape(6, 2)
    for number, original in enumerate((strided, posterior("Categorical"))):
        paths.append(str(tmp_path / f"{number}.kosambi"))
        original.save(paths[-1])
        p = original.predict(x)
        found = [p.mean, p.variance, *p.interval(0.9)] if p.mean.ndim == 1 else [p.mean, p.variance]
        digests.append(hashlib.sha256(b"".join(np.ascontiguousarray(v).tobytes() for v in found)).hexdigest())
    environment = {**os.environ, "JAX_ENABLE_X64": "0", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", code, *paths]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == digests


def test_the_file_is_plain_safetensors(tmp_path):
    path = tmp_path / "k.kosambi"
    ko.save(KERNELS["Sum"], path)
    arrays = safetensors.numpy.load_file(path)
    assert sorted(float(value) for value in arrays.values()) == [0.1, 0.2, 0.5, 1.0]
    header, _ = header_of(path)
    assert header["__metadata__"]["kosambi_version"] == ko.__version__
    assert len(header["__metadata__"]["sha256"]) == 64
    # The same object gives the same bytes.
    ko.save(KERNELS["Sum"], tmp_path / "again.kosambi")
    assert (tmp_path / "again.kosambi").read_bytes() == path.read_bytes()
    # And what the package writes can be read, in whatever order it does.
    metadata, (spec, arrays) = header["__metadata__"], contents(path)
    safetensors.numpy.save_file(arrays, path, metadata=metadata)
    assert spec["objects"]
    assert_identical(KERNELS["Sum"], ko.load(path))


def test_every_sort_of_array_in_the_package_safetensors(tmp_path):
    kinds = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
    arrays = [np.arange(6).reshape(2, 3).astype(kind) for kind in kinds] + [np.array(2.5), np.zeros((0, 4))]
    ko.save(arrays, tmp_path / "m.kosambi")
    found = safetensors.numpy.load_file(tmp_path / "m.kosambi")
    for number, array in enumerate(arrays):
        assert found[f"a{number}"].dtype == array.dtype
        np.testing.assert_array_equal(found[f"a{number}"], array)


def test_certificates_choices_and_repairs_come_back(tmp_path):
    original = posterior("Bernoulli, Ritz")
    prediction, labels = original.predict(X), original.target.y
    calibration = ko.calibration
    found = [
        original.certificate(),
        ko.select_inducing(original.prior, original.likelihood, original.target.x, labels),
        calibration.temper(prediction, labels),
        calibration.conformal(prediction, labels, 0.5),
        calibration.calibration_report(prediction, labels),
    ]
    assert_identical(found, through_file(found, tmp_path))
