"""Files that are whole or not there, JSON of numbers, names on a terminal, version lists."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pytest

import kosambi as ko
from kosambi._core.writing import as_json, regular_or_absent, rescue, versions, write_atomically
from kosambi.errors import printable


@pytest.mark.parametrize("content", [b"new \xe2\x88\x91", "new ∑", lambda file: file.write(b"new \xe2\x88\x91")])
def test_a_file_is_replaced_through_its_links_and_keeps_its_permissions(tmp_path, content):
    real, link, chain = tmp_path / "there" / "real", tmp_path / "link", tmp_path / "chain"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    chain.symlink_to(link)
    write_atomically(chain, content)
    assert chain.is_symlink()
    assert link.is_symlink()
    assert real.read_text("utf-8") == "new ∑"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["chain", "link", "there"]


def test_a_link_to_nothing_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    assert regular_or_absent(tmp_path / "link")
    write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "absent").read_bytes() == b"x"


def test_what_is_no_regular_file_is_refused_and_left_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "pipe", tmp_path / "folder", "/dev/null"):
        assert not regular_or_absent(path)
        with pytest.raises(FileExistsError, match="no regular file"):
            write_atomically(path, b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path, failure):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file):
        file.write(b"half of it")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_numbers_as_json():
    value = {
        "scalars": [np.float64(0.1), np.float32(np.nan), np.int64(2), np.bool_(True), True, None, -np.inf],
        "array": np.array([[1.0, np.nan], [np.inf, 2.5]]),
        3: ("a", np.str_("b")),
    }
    found = as_json(value)
    assert found == {
        "scalars": [0.1, None, 2, True, True, None, None],
        "array": [[1.0, None], [None, 2.5]],
        "3": ["a", "b"],
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    with pytest.raises(TypeError, match="Got object"):
        as_json([object()])


@pytest.mark.parametrize("text", ["a\x1b]0;title\x07", "\x9b31m", "a\r\nb", "\u202eabc", "\udc80", "\x7f"])
def test_names_cannot_command_a_terminal(text):
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode("utf-8")
    assert shown != text
    error = ko.errors.InputError(f"Column `{text}` is odd.\nDrop it.")
    assert str(error).split("\n")[-1] == "Drop it."
    assert str(error).replace("\n", " ").isprintable()


def test_versions_are_those_that_are_installed():
    found = versions("pytest", "no-such-package")
    assert found["numpy"] == np.__version__
    assert found["pytest"] == pytest.__version__
    assert {"kosambi", "python", "jax", "jaxlib", "equinox", "blackjax", "scipy", "scikit-learn"} <= set(found)
    assert "no-such-package" not in found


def test_a_rescue_is_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "absent"))
    monkeypatch.setenv("HOME", str(tmp_path))
    text = rescue(lambda folder: (folder / "file").write_text("kept"))
    (folder,) = tmp_path.iterdir()
    assert str(folder) in text
    assert (folder / "file").read_text() == "kept"


def test_a_rescue_that_fails_everywhere_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def fail(folder):
        (folder / "file").write_text("half")
        raise OSError(28, "No space left on device")

    assert rescue(fail) == ""
    assert list(tmp_path.iterdir()) == []
