"""Pages as files: whole, or not there."""

from __future__ import annotations

import os

import pytest

import kosambi as ko
from kosambi.errors import FileError, InputError
from kosambi.page import _write
from tests.page.models import case, page


@pytest.fixture
def quick(monkeypatch):
    """The text has been tested elsewhere."""
    monkeypatch.setattr(_write, "render", lambda *arguments, **options: "<p>naïve ∑</p>\n")


def test_the_file_holds_the_page(tmp_path):
    model, X, y = case("curve")
    options = {"title": "A curve <script>alert(1)</script>", "source": "made & measured"}
    path = ko.page.write(tmp_path / "a page.html", model, X, y, **options)
    assert path == tmp_path / "a page.html"
    assert path.read_text("utf-8") == page("curve")
    assert os.listdir(tmp_path) == ["a page.html"]


def test_a_file_is_replaced_only_when_asked_to(tmp_path, quick):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileError, match=r"exists already. Pass overwrite=True"):
        ko.page.write(path, None)
    assert path.read_text() == "mine"
    ko.page.write(str(path), None, overwrite=True)
    assert path.read_text("utf-8") == "<p>naïve ∑</p>\n"


def test_a_link_stays_one(tmp_path, quick):
    (tmp_path / "there").mkdir()
    link = tmp_path / "page.html"
    link.symlink_to(tmp_path / "there" / "real.html")
    ko.page.write(link, None)
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.html").read_text("utf-8").startswith("<p>")


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, quick, monkeypatch, broken):
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(FileError, match=r"cannot be written: No space left on device. Check"):
        ko.page.write(path, None, overwrite=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_bad_input_paths(tmp_path, quick):
    with pytest.raises(FileError, match=r"is a directory. Give the path of a file in it"):
        ko.page.write(tmp_path, None, overwrite=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is no regular file"):
        ko.page.write(tmp_path / "pipe", None, overwrite=True)
    with pytest.raises(FileError, match=r"does not exist. Make it first"):
        ko.page.write(tmp_path / "no" / "page.html", None)
    with pytest.raises(InputError, match="`path` must be the path of a file"):
        ko.page.write(3, None)
