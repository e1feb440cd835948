"""Options of the commands: those that several have, the words that some of them take, and checks of others."""

from __future__ import annotations

import enum
from typing import Annotated

import typer


class Task(enum.StrEnum):
    """What the target is."""

    auto = "auto"
    regression = "regression"
    classification = "classification"
    counts = "counts"


class DateColumns(enum.StrEnum):
    """What becomes of dates."""

    calendar = "calendar"
    days = "days"


class Learning(enum.StrEnum):
    """What is done about hyperparameters."""

    auto = "auto"
    evidence = "evidence"
    average = "average"


class BadRows(enum.StrEnum):
    """What becomes of new rows that cannot be predicted."""

    error = "error"
    skip = "skip"
    flag = "flag"


Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, also if it fails, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, notes or summary; warnings and errors stay.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error happened.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Of the random numbers: same seed, same rows, same results.")
]


def likelihood_names() -> list[str]:
    """Short names of all likelihoods."""
    # Imported when a name is given: JAX comes with it, and `kosambi --help` need not wait.
    from kosambi.cli._fit import CLASSIFICATION
    from kosambi.likelihoods import BY_SHORT_NAME

    return [*sorted(BY_SHORT_NAME), *CLASSIFICATION]


def checked_likelihood(value: str | None) -> str | None:
    """A short name of a likelihood, or nothing."""
    if value is not None and value not in likelihood_names():
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(likelihood_names())}.")
    return value


def checked_inducing(value: str) -> str:
    """A number of inducing points, or a word for one."""
    if value not in ("auto", "all") and not value.isdecimal():
        raise typer.BadParameter(f"{value!r} is neither auto nor all nor a whole number.")
    return value


def checked_memory(value: str | None) -> str | None:
    """A size of memory, or nothing."""
    if value is not None:
        from kosambi.errors import InputError
        from kosambi.sources import as_bytes

        try:
            as_bytes(value, "--memory")
        except InputError as error:
            raise typer.BadParameter(str(error)) from error
    return value


def checked_neighbors(value: str) -> str:
    """A number of neighbours, or auto."""
    if value != "auto" and not value.isdecimal():
        raise typer.BadParameter(f"{value!r} is neither auto nor a whole number.")
    return value
