"""What the user is told of a search that did not go well."""

from __future__ import annotations

from kosambi.learning._rounds import Progress


def notes_of(
    progress: Progress, at_bound: tuple[str, ...], slope: float, asked: int | None = None, number: int = 0
) -> tuple[str, ...]:
    """What the user is to be warned of."""
    notes = []
    if asked is not None and number < asked:
        notes.append(f"There are {number} inducing points instead of {asked}: x has no more distinct rows.")
    if progress.interrupted:
        notes.append("The search was interrupted; the best so far is returned.")
    elif not progress.converged:
        notes.append(
            f"The search for hyperparameters did not converge in {progress.iterations} iterations (steepest slope "
            f"{slope:.2g} nats for a usual step). Raise `max_iterations`."
        )
    # A long lengthscale is a column that does not matter; these say that the model does not suit the data.
    if rounded := [name for name in at_bound if name in progress.limits.rounded]:
        notes.append(
            f"{', '.join(rounded)} ended at what the rounding of y alone adds: the data look as if they had no other "
            "noise. Rows that occur twice with the same y make it seem so; leave repeated rows out if they are copies."
        )
    unit = ("variance", "noise", "scale")
    doubtful = [name for name in at_bound if name.rsplit(".", 1)[-1] in unit and name not in rounded]
    if doubtful:
        notes.append(
            f"{', '.join(doubtful)} ended at a bound. Look at the units of y, give the prior a mean that suits "
            "it (a kernel alone has mean zero), or leave out a kernel that the data do not need."
        )
    return tuple(notes)
