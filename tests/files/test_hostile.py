"""Damaged, foreign and hostile files: a clear error or the same object, and nothing is ever executed."""

from __future__ import annotations

import json
import os
import pickle
import time

import numpy as np
import pytest
import safetensors.numpy

import kosambi as ko
from kosambi.errors import FileError
from kosambi.files import _container
from kosambi.files._older import FORMAT_VERSION
from tests.files.helpers import (
    assert_identical,
    contents,
    fields_of_class,
    header_of,
    outcome,
    rewrite,
    write_header,
)
from tests.files.models import posterior

POINTS = np.linspace(-1.0, 1.0, 6).reshape(3, 2)


def small_basis():
    kernel = ko.kernels.Matern52([0.5, 1.0]) + 0.1
    return ko.PointBasis(ko.GaussianRandomElement(kernel, ko.measures.empirical(POINTS)), POINTS[:2])


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "basis.kosambi"
    ko.save(small_basis(), path)
    return path


@pytest.mark.slow
def test_bit_flips(tmp_path, path):
    original, data = small_basis(), path.read_bytes()
    rng = np.random.default_rng(5)
    refused = 0
    for bit in rng.integers(0, 8 * len(data), size=1000):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(changed)
        result = outcome(path)
        refused += isinstance(result, FileError)
        if not isinstance(result, FileError):
            assert_identical(original, result)
    assert refused > 990


def test_several_flips_and_overwritten_blocks(path):
    original, data = small_basis(), path.read_bytes()
    rng = np.random.default_rng(6)
    for _ in range(200):
        changed = np.frombuffer(data, dtype=np.uint8).copy()
        start = int(rng.integers(0, len(data)))
        changed[start : start + int(rng.integers(1, 60))] = rng.integers(0, 256)
        path.write_bytes(changed.tobytes())
        result = outcome(path)
        if not isinstance(result, FileError):
            assert_identical(original, result)


def test_truncations_and_additions(path):
    data = path.read_bytes()
    lengths = np.random.default_rng(7).integers(0, len(data), size=200)
    for length in {0, 1, 7, 8, 9, len(data) - 1, *map(int, lengths)}:
        path.write_bytes(data[:length])
        assert isinstance(outcome(path), FileError)
    for more in (b"\0", b"{}", data):
        path.write_bytes(data + more)
        with pytest.raises(FileError, match="too many"):
            ko.load(path)


class Harmful:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("kind", ["empty", "random", "pickle", "png", "json", "safetensors", "zip"])
def test_files_of_other_kinds(kind, tmp_path):
    path, marker = tmp_path / "other", tmp_path / "executed"
    if kind == "safetensors":
        safetensors.numpy.save_file({"a": np.zeros(3)}, path, metadata={"format": "np"})
    else:
        path.write_bytes(
            {
                "empty": b"",
                "random": np.random.default_rng(0).bytes(5000),
                "pickle": pickle.dumps(Harmful(marker)),
                "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
                "json": b'{"kosambi": 1}' * 20,
                "zip": b"PK\x03\x04" + bytes(300),
            }[kind]
        )
    with pytest.raises(FileError, match=r"no file of kosambi's|too few") as caught:
        ko.load(path)
    assert str(path) in str(caught.value)
    assert not marker.exists()


@pytest.mark.parametrize("version", [str(FORMAT_VERSION + 1), "0", "one", "999999999999999999999999", ""])
def test_other_versions(version, path):
    header, data = header_of(path)
    header["__metadata__"] |= {"format_version": version, "kosambi_version": "7.3", "something": "new"}
    write_header(path, header, data)
    with pytest.raises(FileError, match=r"written by kosambi 7\.3"):
        ko.load(path)


@pytest.mark.parametrize("shape", [[10**12], [10**6, 10**6], [2**62, 4], [2**32, 2**32, 2**32], [10**12, 0, 2**50]])
def test_a_header_that_asks_for_more_than_there_is(shape, path):
    header, data = header_of(path)
    name = next(name for name in header if name != "__metadata__")
    header[name]["shape"] = shape
    write_header(path, header, data)
    began = time.perf_counter()
    with pytest.raises(FileError, match=r"needs .* bytes"):
        ko.load(path)
    header[name]["data_offsets"] = [0, 8 * 10**12]
    write_header(path, header, data)
    with pytest.raises(FileError, match=r"needs .* bytes"):
        ko.load(path)
    assert time.perf_counter() - began < 1.0


def test_headers_that_lie_about_places(path):
    header, data = header_of(path)
    name = max((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"][1])
    begin, end = header[name]["data_offsets"]
    changes = [
        {"data_offsets": [begin - 8, end - 8]},
        {"data_offsets": [-8, end - begin - 8]},
        {"data_offsets": [begin, end, end]},
        {"data_offsets": "here"},
        {"dtype": "I64"},
        {"dtype": "F999"},
        {"dtype": ["F64"]},
        {"shape": [True]},
        {"shape": [1.0]},
        {"shape": [1] * 40},
        {"extra": 1},
    ]
    for change in changes:
        write_header(path, {**header, name: {**header[name], **change}}, data)
        assert isinstance(outcome(path), FileError), change
    # Huge axes beside one of length zero need no memory, but NumPy cannot make them.
    write_header(path, {**header, "zz": {"dtype": "F64", "shape": [2**62, 2**62, 0], "data_offsets": [end, end]}}, data)
    assert isinstance(outcome(path), FileError)


def test_headers_that_are_no_strict_json(path):
    header, data = header_of(path)
    text = json.dumps(header)
    deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    for bad in (text.replace('"__metadata__"', '"a0": NaN, "__metadata__"'), '{"a0": 1, ' + text[1:], deep, "{" * 50):
        path.write_bytes(len(bad.encode()).to_bytes(8, "little") + bad.encode() + data)
        assert isinstance(outcome(path), FileError)


def test_a_spec_that_is_no_strict_json(path):
    _, arrays = contents(path)
    deep = "[" * 100_000 + "]" * 100_000
    for bad in (deep, '{"a": 1, "a": 2}', '{"a": Infinity}', "[", "", '{"a": ' + "9" * 5000 + "}"):
        digest = _container._start_digest(FORMAT_VERSION, bad)
        for name in sorted(arrays):
            array = arrays[name]
            _container._add_head(digest, name, array.dtype, array.shape, array.nbytes)
            digest.update(array.tobytes())
        header, data = header_of(path)
        header["__metadata__"] |= {"spec": bad, "sha256": digest.hexdigest()}
        write_header(path, header, data)
        with pytest.raises(FileError, match="JSON"):
            ko.load(path)


def set_field(cls, field, value):
    return lambda spec, arrays: fields_of_class(spec, cls).update({field: value})


def set_array(cls, field, value):
    """Another array in place of the one that a field refers to."""

    def change(spec, arrays):
        arrays[fields_of_class(spec, cls)[field]["array"]] = np.asarray(value)

    return change


def set_mean(value):
    def change(spec, arrays):
        fields = fields_of_class(spec, "priors.GaussianRandomElement")
        del arrays[fields["mean"]["array"]]
        fields["mean"] = value

    return change


def drop_field(spec, arrays):
    del fields_of_class(spec, "basis.PointBasis")["factor"]


def rename_class(name):
    return lambda spec, arrays: spec["objects"][0].update({"class": name})


def cycle(spec, arrays):
    # Forwards, and to itself: neither can be written down in a list where each object follows its parts.
    fields_of_class(spec, "basis.PointBasis")["prior"] = {"object": len(spec["objects"]) - 1}


def chain(spec, arrays):
    number = next(i for i, entry in enumerate(spec["objects"]) if entry.get("class") == "kernels.Sum")
    tail = spec["objects"][number + 1 :]
    links = [
        {
            "class": f"kernels.{'Product' if i % 2 else 'Sum'}",
            "fields": {"kernels": {"tuple": [{"object": number + i}]}},
        }
        for i in range(20_000)
    ]
    return {**spec, "root": {"object": number + 20_000}, "objects": spec["objects"][: number + 1] + links + tail[:0]}


def nested_lists(spec, arrays):
    value = {"tuple": []}
    for _ in range(150):
        value = {"tuple": [value]}
    fields_of_class(spec, "basis.PointBasis")["num_given"] = value


HOSTILE = {
    "unknown class": (rename_class("kernels.Nonsense"), "does not have"),
    "class of Python's": (rename_class("os.system"), "does not have"),
    "class of kosambi's that is not listed": (rename_class("kernels.AbstractKernel"), "does not have"),
    "class that is no text": (rename_class(["kernels.Sum"]), "does not have"),
    "missing field": (drop_field, "has the fields"),
    "extra field": (set_field("basis.PointBasis", "__class__", 1), "has the fields"),
    "fields that are none": (lambda s, a: s["objects"][0].update({"fields": 3}), "has the fields"),
    "wrong kind of number": (set_array("basis.PointBasis", "factor", np.eye(2, dtype=int)), "array of int64"),
    "complex in disguise": (set_array("kernels.Constant", "variance", np.array(True)), "refuses|would not"),
    "parameter in single precision": (set_array("kernels.Constant", "variance", np.float32(0.1)), "would not leave"),
    "wrong number of axes": (set_array("basis.PointBasis", "factor", np.ones(2)), "shape"),
    "axes that disagree": (set_array("basis.PointBasis", "factor", np.eye(3)), "agree"),
    "square that is none": (set_array("basis.PointBasis", "factor", np.ones((2, 3))), "agree"),
    "tolerance with axes": (set_array("basis.PointBasis", "tolerance", np.ones(2)), "tolerance"),
    "negative lengthscale": (set_array("kernels.Matern52", "lengthscale", [-1.0, 1.0]), "positive"),
    "NaN lengthscale": (set_array("kernels.Matern52", "lengthscale", [np.nan, 1.0]), "positive"),
    "too many lengthscales": (set_array("kernels.Matern52", "lengthscale", np.ones(3)), "input columns"),
    "columns that do not exist": (set_field("kernels.Matern52", "active_dims", {"tuple": [7, 8]}), "column"),
    "negative columns": (set_field("kernels.Matern52", "active_dims", {"tuple": [-1]}), "column numbers"),
    "columns that are no numbers": (set_field("kernels.Matern52", "active_dims", {"tuple": [True]}), "is not"),
    "weights that do not sum to one": (set_array("measures.PointMeasure", "weights", np.ones(3)), "would not leave"),
    "negative weights": (set_array("measures.PointMeasure", "weights", [1.5, -0.5, 0.0]), "negative"),
    "points that do not fit": (set_array("measures.PointMeasure", "points", np.ones((3, 5))), "columns"),
    "support of another size": (set_array("basis.PointResidual", "loading", np.ones((9, 2))), "size|rows"),
    "mean that is text": (set_mean("zero"), "refuses"),
    "mean that is a list": (set_mean({"list": [1.0]}), "refuses"),
    "kernel in place of a measure": (set_field("priors.GaussianRandomElement", "measure", {"object": 0}), "is not"),
    "Boolean value in place of a number": (set_field("basis.PointBasis", "num_given", True), "is not"),
    "number that is too large": (set_field("basis.PointBasis", "num_given", 2**70), "not a value"),
    "unknown tag": (set_field("basis.PointBasis", "num_given", {"eval": "1+1"}), "not a value"),
    "two tags": (set_field("basis.PointBasis", "num_given", {"array": "a0", "object": 0}), "not a value"),
    "array that is missing": (set_field("basis.PointBasis", "factor", {"array": "a99"}), "missing"),
    "arrays that nothing uses": (lambda s, a: a.update({"zz": np.zeros(3)}), "belong to nothing"),
    "objects that nothing uses": (lambda s, a: s["objects"].append(s["objects"][0]), "belong to nothing"),
    "cycle": (cycle, "does not come before it"),
    "reference beyond the end": (lambda s, a: s.update({"root": {"object": 99}}), "does not come before it"),
    "negative reference": (lambda s, a: s.update({"root": {"object": -1}}), "does not come before it"),
    "long chain": (chain, "deep"),
    "class that is null": (lambda s, a: s["objects"][0].update({"class": None}), "does not have"),
    "NaN among inducing points": (
        set_array("basis.PointBasis", "inducing_points", [[np.nan, 0.0], [0.0, 1.0]]),
        "inducing_points must be finite",
    ),
    "infinite factor": (set_array("basis.PointBasis", "factor", np.diag([1.0, np.inf])), "factor must be finite"),
    "nested lists": (nested_lists, "deep"),
    "no root": (lambda s, a: {"objects": s["objects"]}, "parts"),
    "spec that is a list": (lambda s, a: [s], "parts"),
    "objects that are none": (lambda s, a: {**s, "objects": {}}, "list of objects"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bad_input_hostile_specs_with_a_right_digest(name, path):
    change, message = HOSTILE[name]
    rewrite(path, change)
    with pytest.raises(FileError, match=message) as caught:
        ko.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


POSTERIORS = {
    "impossible labels": ("Bernoulli, Ritz", set_array("target.Target", "y", np.full(30, 0.5)), r"\{0, 1\}"),
    "negative counts": ("Poisson, Nystrom", set_array("target.Target", "y", np.full(30, -1.0)), "count|negative"),
    "unknown link": ("Poisson, Nystrom", set_field("likelihoods.Poisson", "link", "cube"), "link"),
    "unknown potential": ("Bernoulli, Ritz", set_field("target.Target", "kind", "best"), "potential"),
    "too many classes": ("Categorical", set_field("likelihoods.Categorical", "num_classes", 10**12), "shape"),
    "one class": ("Categorical", set_field("likelihoods.Categorical", "num_classes", 1), "at least 2"),
    "noise for others": ("Gaussian, exact", set_array("likelihoods.Gaussian", "noise", np.ones(4)), "another"),
    "number as text": ("Gaussian, exact", set_field("diagnostics.Report", "steps", "many"), "is not"),
    "flat particles": ("Gaussian, exact", set_array("samplers.Particles", "whitened", np.ones((20, 9))), "agree"),
    "rule without weights": ("StudentT, optimal", set_array("likelihoods.Rule", "weights", np.ones(2)), "as many"),
    "axes of a target": ("StudentT, optimal", set_array("target.Target", "x", np.ones((4, 2))), "agree"),
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_bad_input_hostile_posteriors_with_a_right_digest(name, tmp_path):
    model, change, message = POSTERIORS[name]
    path = tmp_path / "m.kosambi"
    posterior(model).save(path)
    rewrite(path, change)
    with pytest.raises(FileError, match=message):
        ko.load(path)


def test_truth_values_that_are_neither(tmp_path):
    path = tmp_path / "truth.kosambi"
    ko.save(np.array([True, False]), path)
    rewrite(path, lambda spec, arrays: arrays.update({"a0": np.array([7, 0], dtype=np.uint8).view(bool)}))
    with pytest.raises(FileError, match="Boolean values"):
        ko.load(path)
