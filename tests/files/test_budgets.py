"""What a small file may ask for: parts, bytes and widths come from what it holds, not from what it says."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import FileError, InputError
from kosambi.files import _budget, _estimators
from tests.files.fuzz import GOLDEN
from tests.files.helpers import fields_of_class, header_of, rewrite, write_header

CLASSIFIER = next(path for path in GOLDEN if path.name == "classifier.kosambi")


def nested_mixtures(levels, parts=2):
    """Each level is made of the one below, `parts` times."""

    def change(spec, arrays):
        arrays["w"] = np.full(parts, 1.0 / parts)
        for _ in range(levels):
            below = {"object": len(spec["objects"]) - 1}
            fields = {"components": {"tuple": [below] * parts}, "weights": {"array": "w"}}
            spec["objects"].append({"class": "measures.MixtureMeasure", "fields": fields})
        spec["root"] = {"object": len(spec["objects"]) - 1}

    return change


@pytest.mark.parametrize(("levels", "parts"), [(20, 2), (98, 2), (3, 300)])
def test_nested_mixtures_are_refused_at_once(levels, parts, tmp_path):
    path = tmp_path / "mixtures.kosambi"
    ko.save(ko.measures.gaussian([0.0], [[1.0]]), path)
    rewrite(path, nested_mixtures(levels, parts))
    began = time.perf_counter()
    with pytest.raises(FileError, match=r"so often that they stand for .* parts"):
        ko.load(path)
    assert time.perf_counter() - began < 1.0


def test_what_is_shared_a_little_is_loaded(tmp_path):
    path = tmp_path / "mixtures.kosambi"
    ko.save(ko.measures.gaussian([0.0], [[1.0]]), path)
    rewrite(path, nested_mixtures(8))
    assert ko.load(path).num_columns == 1


def test_one_array_for_very_many_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(_budget, "BYTES", 2**16)
    monkeypatch.setattr(_budget, "BYTES_EACH", 5)
    path = tmp_path / "kernels.kosambi"
    scales = np.ones(1000)
    with pytest.raises(InputError, match="could not be loaded again: its objects refer to the same arrays so often"):
        ko.save([ko.kernels.Matern52(scales)], path) or ko.save(_sharing(scales, 50), path)
    assert ko.load(path)[0].lengthscale.shape == (1000,)


def _sharing(scales, number):
    """Kernels that hold one array, which constructors would have copied."""
    kernels = [ko.kernels.Matern52(scales) for _ in range(number)]
    for kernel in kernels[1:]:
        object.__setattr__(kernel, "lengthscale", kernels[0].lengthscale)
    return kernels


@pytest.mark.parametrize("kind", ["<U500000000", "<U1", "U"])
def test_labels_are_as_wide_as_they_are(kind, tmp_path):
    path = tmp_path / "labels.kosambi"
    path.write_bytes(CLASSIFIER.read_bytes())
    rewrite(path, lambda spec, arrays: saved(spec).update({"label_type": kind, "labels": {"tuple": ["low", "higher"]}}))
    classes = ko.load(path).classes_
    assert classes.dtype == np.dtype("<U6")
    assert classes.tolist() == ["low", "higher"]


def saved(spec):
    return fields_of_class(spec, "estimators.SavedEstimator")


def test_one_long_label_does_not_pad_all_others(tmp_path, monkeypatch):
    path = tmp_path / "labels.kosambi"
    path.write_bytes(CLASSIFIER.read_bytes())
    labels = {"tuple": ["x" * 3_000_000, "y"]}
    rewrite(path, lambda spec, arrays: saved(spec).update({"label_type": "<U1", "labels": labels}))
    assert len(ko.load(path).classes_[0]) == 3_000_000
    monkeypatch.setattr(_estimators, "_PADDED_EACH", 4)
    monkeypatch.setattr(_estimators, "_PADDED", 0)
    with pytest.raises(FileError, match="too many to be padded"):
        ko.load(path)


def test_labels_round_trip_without_the_width_of_their_array(tmp_path):
    model = ko.load(CLASSIFIER)
    model.classes_ = np.array(["a", "bc"], dtype="<U40")
    ko.save(model, tmp_path / "model.kosambi")
    assert ko.load(tmp_path / "model.kosambi").classes_.dtype == np.dtype("<U2")


def test_an_axis_beside_none_is_not_longer_than_the_file(tmp_path):
    path = tmp_path / "empty.kosambi"
    ko.save([np.zeros((40, 0))], path)
    assert ko.load(path)[0].shape == (40, 0)
    header, data = header_of(path)
    header["a0"]["shape"] = [10**9, 0]
    write_header(path, header, data)
    with pytest.raises(FileError, match="damaged"):
        ko.load(path)


def test_a_long_key_is_not_repeated_for_each_of_its_values(tmp_path):
    path = tmp_path / "long.kosambi"
    ko.save({"k" * 200_000: list(range(2000))}, path)
    tracemalloc.start()
    ko.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23
    rewrite(path, lambda spec, arrays: spec["root"]["dict"][0][1]["list"].append({"eval": 1}))
    with pytest.raises(FileError, match="not a value") as caught:
        ko.load(path)
    assert len(str(caught.value)) < 1000
