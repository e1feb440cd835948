"""How the error falls: with the number of inducing points, in theory and in fact, and with the seconds of a sampler."""

from __future__ import annotations

from reproduction._convergence_figures import draw
from reproduction._convergence_tables import table
from reproduction._divergence import divergence
from reproduction._races import PROBLEMS, sampling_race, variational_race
from reproduction._rates import rate
from reproduction.experiment import Cell, Experiment, Scale

LIKELIHOODS = ("bernoulli", "student_t", "gaussian")


def cells(scale: Scale) -> list[Cell]:
    """Rates first, which are quick; then divergences; then the races, whose seconds are measured.

    >>> [cell.name for cell in cells(Scale(quick=True))][:2]
    ['rate-element-0', 'rate-element-1']
    """
    return [*_rates(scale.quick), *_divergences(scale.quick), *_races(scale)]


def _rates(quick: bool) -> list[Cell]:
    sizes = [8, 12, 16, 24, 32, 48] if quick else [8, 12, 16, 24, 32, 48, 64, 96]
    normal_sizes = list(range(2, 16, 3 if quick else 2))
    found = []
    for prior in ("element", "process"):
        for order in (0, 1, 2, None):
            arguments = {
                "prior": prior,
                "order": order,
                "sizes": normal_sizes if order is None else sizes,
                "num_points": 512 if quick else 1024,
            }
            name = "squared_exponential" if order is None else str(order)
            found.append(Cell(f"rate-{prior}-{name}", rate, arguments))
    return found


def _divergences(quick: bool) -> list[Cell]:
    sizes = [4, 8, 16] if quick else [3, 4, 6, 8, 12, 16, 24, 32]
    found = []
    for prior in ("rough_element",) if quick else ("rough_element", "element"):
        for likelihood in LIKELIHOODS:
            arguments = {
                "likelihood": likelihood,
                "prior": prior,
                "num_rows": 120,
                "sizes": sizes,
                "num_particles": 1000 if quick else 2000,
            }
            found.append(Cell(f"divergence-{prior}-{likelihood}", divergence, arguments))
    return found


def _races(scale: Scale) -> list[Cell]:
    seconds = 5.0 if scale.quick else min(40.0, scale.limit)
    found = []
    for name in ("few_labels",) if scale.quick else PROBLEMS:
        arguments = {"name": name, "seconds": seconds}
        found.append(Cell(f"race-{name}", sampling_race, arguments))
        found.append(Cell(f"variational-{name}", variational_race, arguments, needs=("gpytorch",)))
    return found


EXPERIMENT = Experiment(
    "convergence", "Convergence: inducing points, bounds and seconds", cells=cells, table=table, draw=draw
)
