"""What properties are asked of: few shapes, so that few programs are compiled, and numbers of all kinds."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
from hypothesis import strategies as st

ROWS, COLUMNS = (1, 2, 5, 8), (1, 2)
EDGES = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-308, 1e-150, 1e-9, 1e9, 1e100, 1e150, -1e150, 1e154, 1e200, 1.7e308)
"""Numbers at the edge of floating point, and of their squares."""
NO_NUMBERS = (np.nan, np.inf, -np.inf)

ordinary = st.just(1.0)
rows = st.sampled_from(ROWS)
columns = st.sampled_from(COLUMNS)
seeds = st.integers(0, 2**32 - 1)
keys = seeds.map(jax.random.key)
scales = st.sampled_from([1e-150, 1e-9, 1.0, 1e9, 1e150])
"""By which ordinary numbers are multiplied."""
edges = st.sampled_from(EDGES)
moderate = st.floats(-5.0, 5.0, allow_subnormal=False)


@st.composite
def inputs(draw, num_rows=rows, num_columns=columns, scale=ordinary):
    """(N, D): ordinary rows, also with a constant column, equal rows, whole numbers, or far from zero."""
    shape = draw(num_rows), draw(num_columns)
    x = np.random.default_rng(draw(seeds)).normal(size=shape)
    how = draw(st.sampled_from(["plain", "plain", "constant column", "equal rows", "all equal", "whole", "far"]))
    if how == "constant column":
        x[:, 0] = 1.0
    elif how == "equal rows":
        x[-(shape[0] // 2) :] = x[: shape[0] // 2] if shape[0] > 1 else x
    elif how == "all equal":
        x[:] = x[0]
    elif how == "whole":
        x = np.round(3.0 * x)
    elif how == "far":
        x = x + 1e6
    return x * draw(scale)


@st.composite
def observations(draw, num_rows, kind="real", scale=ordinary):
    """(N,): numbers, also all equal; positive ones; counts; labels; as many as `num_rows`."""
    rng = np.random.default_rng(draw(seeds))
    if kind == "real":
        y = draw(scale) * rng.normal(size=num_rows)
    elif kind == "positive":
        y = rng.gamma(2.0, size=num_rows)
    elif kind == "counts":
        y = rng.poisson(2.0, size=num_rows).astype(float)
    else:
        y = rng.integers(0, int(kind), size=num_rows).astype(float)
    return np.full(num_rows, y[0]) if draw(st.booleans()) and draw(st.booleans()) else y


@st.composite
def weights(draw, num_rows, least=0.0):
    """(N,): some zero, unless `least` is more, and none so large that it drowns the others."""
    values = st.sampled_from([v for v in (0.0, 1e-9, 0.5, 1.0, 2.0, 3.0) if v >= least])
    return np.array(draw(st.lists(values, min_size=num_rows, max_size=num_rows)))


FORMS = {
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a.tolist())) if a.ndim > 1 else tuple(a.tolist()),
    "object": lambda a: a.astype(object),
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "read only": lambda a: _locked(a.copy()),
    "no mask": lambda a: np.ma.masked_array(a, mask=np.zeros(a.shape, bool)),
    "pandas": lambda a: pd.DataFrame(a, columns=[f"c{i}" for i in range(a.shape[1])]) if a.ndim > 1 else pd.Series(a),
    "pandas, own index": lambda a: pd.DataFrame(a, index=np.arange(len(a))[::-1]) if a.ndim > 1 else pd.Series(a),
    "pandas, nullable": lambda a: (pd.DataFrame if a.ndim > 1 else pd.Series)(a).astype("Float64"),
}
"""Ways in which the same float64 numbers may come."""
WHOLE_FORMS = {
    "int64": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "list of int": lambda a: a.astype(int).tolist(),
    "jax": lambda a: jax.numpy.asarray(a.astype(np.float32)),
}
"""Ways in which small whole numbers may come."""
forms = st.sampled_from(list(FORMS))
whole_forms = st.sampled_from(list(WHOLE_FORMS))


def _locked(array):
    array.flags.writeable = False
    return array


@st.composite
def faulty(draw, array):
    """The array with one entry that is no number."""
    bad = array.copy()
    bad.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(NO_NUMBERS))
    return bad
