"""Systems of neighbours that are held in memory once they are known: R_{𝒩𝒩} and R_{𝒩x}, of as many inputs as fit."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

DOUBLE_UP_TO = 2**26
"""Numbers of all systems, kept or not, up to which they are in double precision."""
# What rounding to single precision may change of I + W^½RW^½, which is one at least.
_ROUNDING = 1e-3


class KeptSystems:
    """Those of the first inputs, as many as there is room for.

    Arguments:
        number: of inputs.
        places: m, neighbours of each.
        batch: inputs that are solved together.
        room: bytes that they may take.

    >>> kept = KeptSystems(10, 1, 4, 2 * 8 * 9)
    >>> _ = kept.put(slice(4, 8), np.ones((4, 1, 1)), np.zeros((4, 1)))
    >>> [kept.at(part) is not None for part in (slice(0, 4), slice(4, 8), slice(6, 10))]
    [False, True, False]
    """

    def __init__(self, number: int, places: int, batch: int, room: int) -> None:
        # By their number alone, so that no digit depends on how much room there is.
        self.dtype = np.float64 if number * places * (places + 1) <= DOUBLE_UP_TO else np.float32
        each = max(1, places * (places + 1) * np.dtype(self.dtype).itemsize)
        self.batch, rows = batch, min(number, room // each) // batch * batch
        # In one piece, which goes back to the system as a whole.
        self.gram, self.toward = np.empty((rows, places, places), self.dtype), np.empty((rows, places), self.dtype)
        self._is_known = np.zeros(rows // batch, dtype=bool)

    def at(self, part: slice) -> tuple[Float[np.ndarray, "T m m"], Float[np.ndarray, "T m"]] | None:
        """Those of a batch; None where they are not there."""
        if not self._has_place(part) or not self._is_known[part.start // self.batch]:
            return None
        return self.gram[part], self.toward[part]

    def put(
        self, part: slice, gram: Float[np.ndarray, "T m m"], toward: Float[np.ndarray, "T m"]
    ) -> tuple[Float[np.ndarray, "T m m"], Float[np.ndarray, "T m"]]:
        """Keep those of a batch, if there is room; returns them rounded as those that are kept."""
        rounded = gram.astype(self.dtype, copy=False), toward.astype(self.dtype, copy=False)
        if self._has_place(part):
            self.gram[part], self.toward[part] = rounded
            self._is_known[part.start // self.batch] = True
        return rounded

    def _has_place(self, part: slice) -> bool:
        return part.start % self.batch == 0 and part.stop <= len(self.gram)


def is_precise(gram: Float[np.ndarray, "T m m"], root: Float[np.ndarray, "T m"]) -> bool:
    """Whether what is kept has digits enough for such precisions, whose roots are given."""
    if gram.dtype == np.float64:
        return True
    most = float(np.max(np.square(root) * np.einsum("tkk->tk", gram), initial=0.0))
    return gram.shape[1] * float(np.finfo(np.float32).eps) * most < _ROUNDING
