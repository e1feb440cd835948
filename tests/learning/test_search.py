"""The search itself: when it ends, and what it returns."""

import numpy as np

from kosambi._core.progress import Interruption
from kosambi.learning.search import FIRST_STEP, WINDOW, Record, minimise


def slow_valley(z):
    """Rosenbrock's, in 20 dimensions: hundreds of iterations, most of which gain little."""
    from scipy.optimize import rosen, rosen_der

    return rosen(z), rosen_der(z)


def test_a_search_ends_when_it_gains_too_little():
    start, bound = np.full(20, -1.5), np.full(20, 5.0)
    whole, short = Record(), Record()
    to_the_end = minimise(slow_valley, start, -bound, bound, 1000, whole)
    early = minimise(slow_valley, start, -bound, bound, 1000, short, enough=5.0)
    assert to_the_end.converged
    assert WINDOW < early.iterations < to_the_end.iterations
    # Every window before the last had gained as much, so what is left is not what it began with.
    assert early.value < 0.1 * slow_valley(start)[0]
    assert early.value == min(short.values)
    # Both took the same way as far as they went.
    assert short.values == whole.values[: len(short.values)]


def test_a_search_that_is_interrupted_has_not_converged():
    record, bound = Record(), np.full(20, 5.0)

    def interrupted(z):
        if len(record.values) == 30:
            raise KeyboardInterrupt
        return slow_valley(z)

    found = minimise(interrupted, np.full(20, -1.5), -bound, bound, 1000, record, stop=Interruption("return"))
    assert not found.converged
    assert found.value == min(record.values) == slow_valley(found.vector)[0]


def test_the_first_step_is_short_whatever_the_slope():
    seen = []

    def steep(z):
        seen.append(z.copy())
        return 1e6 * float(np.sum(np.square(z - 0.3))), 2e6 * (z - 0.3)

    bound = np.full(3, 50.0)
    found = minimise(steep, np.full(3, 5.0), -bound, bound, 100, Record())
    np.testing.assert_allclose(found.vector, 0.3, atol=1e-6)
    assert found.converged
    # Down the whole slope it would have been at the bounds.
    assert np.linalg.norm(seen[1] - seen[0]) <= FIRST_STEP + 1e-9
