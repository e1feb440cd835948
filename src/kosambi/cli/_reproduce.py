"""`kosambi reproduce`: hands its arguments to the folder `reproduction` of the repository, which no wheel contains."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = "reproduction"
# The folder above `src`, where kosambi is used from its repository.
_CHECKOUT = Path(__file__).resolve().parents[3]


def find_repository() -> Path | None:
    """The repository with the experiments: the one that this code is part of, or the current folder."""
    for place in (_CHECKOUT, Path.cwd()):
        if (place / FOLDER / "command.py").is_file():
            return place
    return None


def reproduce(arguments: Sequence[str]) -> None:
    """Run `python -m reproduction` with these arguments in this process, which it ends.

    Raises:
        FileError: the folder is nowhere to be found.
    """
    place = find_repository()
    if place is None:
        # Not at the top: it imports JAX.
        from kosambi.errors import FileError

        raise FileError(
            f"The experiments of the paper are in the folder `{FOLDER}` of kosambi's repository, which is not part of "
            f"the installed package and not in {Path.cwd()}. Get the repository, and in it run `pip install -r "
            f"{FOLDER}/requirements.txt` and then `python -m {FOLDER} --quick`."
        )
    sys.path.insert(0, str(place))
    importlib.import_module(f"{FOLDER}.command").main(arguments, program="kosambi reproduce")
