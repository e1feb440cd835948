"""A run on disk: the fitted model, what was done, and the held-out rows; written as a whole or not at all.

    run/model.kosambi   the fitted estimator (`kosambi.save`)
    run/held_out.csv    held-out rows with their predictions
    run/report.html     the page
    run/run.json        everything else, with digests of the first two and of itself; written last

Everything is written into a folder beside the final one, flushed to disk, and renamed. Whoever looks sees no folder,
the old one, or the new one. What a killed process left behind is removed by the next one, except the checkpoint of a
fit, from which that one goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kosambi._core.writing import as_json, sync
from kosambi._version import __version__
from kosambi.cli._exits import committing, partial_folder
from kosambi.cli._record import MAX_BYTES, is_sealed, sealed
from kosambi.errors import FileError, printable

FORMAT, FORMAT_VERSION, OLDEST_VERSION = "kosambi run", 3, 1
"""Version 1, of kosambi 0.1.0, has no digest and its columns no units; before version 3 there are no dates."""
MODEL, HELD_OUT, PAGE, RECORD = "model.kosambi", "held_out.csv", "report.html", "run.json"
_OURS = {MODEL, HELD_OUT, PAGE, RECORD}
_TRIAL_BYTES = 2**18
_FIT_AGAIN = "Fit again, with `--force` if the folder is in the way."


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def prepare(out: Path, *, force: bool) -> list[str]:
    """Make sure that a run can be written to `out`, and clear away what killed processes left; returns notes.

    Raises:
        FileError: something is in the way, or the place cannot be written to.
    """
    asked, out = out, _resolved(out)
    _check_replaceable(asked, out)
    notes = _cleared(out)
    if out.exists():
        _check_contents(out, force=force)
    _try(out)
    return notes


def _check_replaceable(asked: Path, out: Path) -> None:
    """A run takes the place of a folder as a whole, so it must be no folder that others are in."""
    around = [(Path.cwd(), "the current folder")]
    with contextlib.suppress(RuntimeError):
        around.append((Path.home().resolve(), "your home folder"))
    for place, name in around:
        if place == out or place.is_relative_to(out):
            what = "is" if place == out else "contains"
            raise FileError(
                f"`--out {asked}` {what} {name}, which a run would replace. Give a new folder: `--out run`."
            )
    if os.path.ismount(out):
        raise FileError(f"`--out {asked}` is where a disk is mounted and cannot be replaced. Give a new folder in it.")
    if out.exists() and not out.is_dir():
        raise FileError(f"`{asked}` is a file, and a run is a folder. Choose another `--out`.")


def _check_contents(out: Path, *, force: bool) -> None:
    """Only a run is replaced, and only if that was asked for."""
    entries = sorted(entry.name for entry in out.iterdir())
    foreign = [name for name in entries if name not in _OURS]
    if foreign or (entries and not {MODEL, RECORD} & set(entries)):
        shown = ", ".join(f"`{printable(name)}`" for name in (foreign or entries)[:5])
        raise FileError(
            f"`{out}` holds what is not part of a run: {shown}. Choose another `--out`, or move these away first."
        )
    if entries and not force:
        raise FileError(f"`{out}` exists. Choose another `--out`, or replace it with `--force`.")


def _try(out: Path) -> None:
    """Write something where the run will be, so that a lack of permission or space is heard of before the work."""
    place = out.parent
    while not place.exists():
        place = place.parent
    trial = place / _partial_name(out)
    try:
        trial.mkdir()
        with partial_folder(trial):
            (trial / RECORD).write_bytes(b"0" * _TRIAL_BYTES)
            sync(trial / RECORD)
    except OSError as error:
        raise FileError(f"`{out}` cannot be made: {error.strerror}. Choose another `--out`.") from error


def checkpoint(out: Path) -> Path:
    """The folder beside the run in which an unfinished fit keeps what it has found."""
    out = _resolved(out)
    return out.parent / f".{out.name}.checkpoint"


@contextlib.contextmanager
def writing(out: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write to, which becomes `out` if all goes well and vanishes if not."""
    asked, out = out, _resolved(out)
    partial = out.parent / _partial_name(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
    except OSError as error:
        raise FileError(f"`{out}` cannot be made: {error.strerror}. Choose another `--out`.") from error
    with partial_folder(partial):
        yield partial
        for entry in partial.iterdir():
            sync(entry)
        sync(partial)
        if out.exists():
            # Things may have changed since the start.
            _check_contents(out, force=force)
        with committing(asked):
            _move(partial, out)


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """The last file of a run: what was done, with digests of the others."""
    files = {name: digest(folder / name) for name in (MODEL, HELD_OUT) if (folder / name).exists()}
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, **as_json(record), "files": files}
    (folder / RECORD).write_text(
        json.dumps(sealed(whole), indent=2, allow_nan=False, ensure_ascii=False) + "\n", "utf-8"
    )


def read_record(folder: Path) -> dict[str, Any]:
    """What was done in a run, after its files were found to be those that were written.

    Raises:
        FileError: there is no such folder, or it is incomplete or damaged.
    """
    if not folder.is_dir():
        raise FileError(f"There is no folder `{folder}`. Give a folder that `kosambi fit --out` wrote.")
    try:
        if (folder / RECORD).stat().st_size > MAX_BYTES:
            raise _damaged(folder, f"its `{RECORD}` has more than {MAX_BYTES} bytes")
        record = json.loads((folder / RECORD).read_text("utf-8"))
    except FileNotFoundError as error:
        raise _damaged(folder, f"it has no `{RECORD}`") from error
    except FileError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, f"its `{RECORD}` cannot be read") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _damaged(folder, f"its `{RECORD}` is none of kosambi's")
    version: Any = record.get("format_version")
    if version not in range(OLDEST_VERSION, FORMAT_VERSION + 1) or isinstance(version, bool):
        raise FileError(
            f"`{folder}` is a run of format {str(record.get('format_version'))[:20]}, and kosambi {__version__} reads "
            f"formats {OLDEST_VERSION} to {FORMAT_VERSION}. Use the version that wrote it, "
            f"{str(record.get('kosambi_version'))[:20]}."
        )
    if version > OLDEST_VERSION and not is_sealed(record):
        raise _damaged(folder, f"its `{RECORD}` is not the one that was written")
    files = record.get("files")
    if not isinstance(files, dict) or MODEL not in files or not set(files) <= {MODEL, HELD_OUT}:
        raise _damaged(folder, f"its `{RECORD}` does not say which files it has")
    for name, expected in files.items():
        if not (folder / name).is_file():
            raise _damaged(folder, f"it has no `{name}`")
        if digest(folder / name) != expected:
            raise _damaged(folder, f"its `{name}` is not the one that was written")
    return record


def _damaged(folder: Path, reason: str) -> FileError:
    return FileError(f"`{folder}` is no run, or incomplete or damaged: {reason}. {_FIT_AGAIN}")


def _resolved(out: Path) -> Path:
    # Through links, so that a link to a folder stays one.
    return Path(os.path.realpath(out))


def _partial_name(out: Path) -> str:
    return f".{out.name}.partial-{os.getpid()}-{secrets.token_hex(4)}"


def _move(partial: Path, out: Path) -> None:
    """Put the new folder in its place. Between the two renames there is none; `prepare` would put the old one back."""
    old = None
    if out.exists():
        old = out.parent / f".{out.name}.old-{os.getpid()}-{secrets.token_hex(4)}"
        os.rename(out, old)
    try:
        os.rename(partial, out)
    except BaseException:
        if old is not None:
            os.rename(old, out)
        raise
    sync(out.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _cleared(out: Path) -> list[str]:
    """Remove what processes that are no more left beside `out`, and put back what one was about to replace."""
    notes: list[str] = []
    if not out.parent.is_dir():
        return notes
    pattern = re.compile(re.escape(f".{out.name}.") + r"(partial|old)-(\d+)-[0-9a-f]+")
    for entry in sorted(out.parent.iterdir()):
        match = pattern.fullmatch(entry.name)
        if match is None or _is_alive(int(match[2])):
            continue
        if match[1] == "old" and not out.exists():
            os.rename(entry, out)
            notes.append(f"An earlier fit was killed while it replaced `{out.name}`; the old run was put back.")
            continue
        shutil.rmtree(entry, ignore_errors=True)
        notes.append(f"Removed `{entry.name}`, which an earlier fit left when it was killed.")
    return notes


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        # There is no harmless way to ask.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
