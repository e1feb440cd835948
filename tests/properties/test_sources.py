"""Sources: however rows are cut into blocks they are the same rows, and what is none is refused with its place."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from kosambi import sources
from tests.properties.data import EDGES, FORMS, forms, inputs, observations, weights
from tests.properties.promises import assert_numbers, outcome, raised

few = settings(max_examples=max(2, settings.default.max_examples // 6))


def cut(x, y, counts, sizes):
    """A source of blocks of these sizes, in turn."""

    def blocks():
        start, turn = 0, 0
        while start < len(x):
            some = slice(start, start + sizes[turn % len(sizes)])
            yield (x[some], y[some]) if counts is None else (x[some], y[some], counts[some])
            start, turn = some.stop, turn + 1

    return sources.BlockSource(blocks)


@given(
    x=inputs(num_rows=st.sampled_from([1, 8, 40])),
    data=st.data(),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_blocks_of_any_size_are_the_same_rows(x, data, sizes):
    y = data.draw(observations(len(x)))
    counts = data.draw(st.none() | weights(len(x)))
    whole, parts = sources.ArraySource(x, y, counts), cut(x, y, counts, sizes)
    for source in (whole, parts):
        found = [np.concatenate(part) for part in list(zip(*sources.Stream(source).blocks(4), strict=True))[1:]]
        for values, right in zip(found, (x, y, np.ones(len(x)) if counts is None else counts), strict=True):
            np.testing.assert_array_equal(values, right)
    one, other = outcome(sources.survey, whole), outcome(sources.survey, parts)
    assert (one is None) == (other is None)
    if one is not None:
        assert one.num_rows == other.num_rows == len(x)
        assert np.isfinite([one.y_mean, one.y_scale]).all()
        np.testing.assert_allclose([one.y_mean, one.y_scale], [other.y_mean, other.y_scale], rtol=1e-9)


@given(x=inputs(num_rows=st.just(8)), form=forms)
def test_forms_of_arrays(x, form):
    source = outcome(sources.ArraySource, FORMS[form](x), FORMS[form](x[:, 0]))
    block = outcome(lambda: next(iter(sources.Stream(source).blocks(16))))
    if block is not None:
        np.testing.assert_array_equal(block.x, x)


@given(
    x=inputs(num_rows=st.just(8), num_columns=st.just(1)),
    what=st.sampled_from(["x", "y", "weights"]),
    row=st.integers(0, 7),
    value=st.sampled_from([np.nan, np.inf, -np.inf]),
    size=st.integers(1, 9),
)
def test_bad_input_rows_are_refused_with_their_place(x, what, row, value, size):
    rows = {"x": x.copy(), "y": x[:, 0].copy(), "weights": np.ones(8)}
    rows[what][row] = value
    message = raised(lambda: list(sources.Stream(cut(*rows.values(), [size])).blocks(4)))
    assert f"row {row}" in message


@given(
    x=st.sampled_from([None, "a", [], [[]], [1.0], [["a"]], [[1.0]], np.zeros((2, 2, 1)), np.zeros((0, 2))]),
    y=st.sampled_from([None, "a", [], [1.0], ["a"], [[1.0]], [np.nan], [10**400], [1j]]),
    counts=st.sampled_from([None, [1.0], [-1.0], [np.nan], [0.0], "a", []]),
)
def test_bad_input_of_any_sort(x, y, counts):
    source = outcome(sources.ArraySource, x, y, counts)
    if source is not None:
        outcome(lambda: list(sources.Stream(source).blocks(4)))
        outcome(sources.survey, source)
    made = sources.BlockSource(lambda: iter([(x, y)]))
    outcome(lambda: list(sources.Stream(made).blocks(4)))


@given(value=st.one_of(st.text(max_size=6), st.floats(allow_nan=True), st.integers(-5, 5), st.none(), st.booleans()))
def test_bad_input_sizes_of_memory(value):
    found = outcome(sources.as_bytes, value) if hasattr(sources, "as_bytes") else None
    assert found is None or found >= 0
    x = np.linspace(0.0, 1.0, 8)[:, None]
    kernel, gaussian = ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1)
    if not isinstance(value, float) or not value > 1e8:
        import jax

        source = sources.ArraySource(x, x[:, 0])
        outcome(ko.infer, jax.random.key(0), kernel, gaussian, source, num_inducing=1, max_memory=value)


@given(x=inputs(num_rows=st.sampled_from([8, 40]), num_columns=st.just(1)), data=st.data(), extreme=st.booleans())
@few
def test_bad_input_posteriors_of_streams(x, data, extreme):
    import jax

    y = data.draw(observations(len(x)))
    if extreme:
        x = x.copy()
        x[0] = data.draw(st.sampled_from(EDGES))
    kernel, gaussian = ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1)
    options = {"inducing_points": x[:1], "num_particles": 2}
    found = outcome(ko.infer, jax.random.key(0), kernel, gaussian, sources.ArraySource(x, y), **options)
    if found is not None:
        p = outcome(found.predict, x)
        assert p is None or np.isfinite(p.mean).all()
        if p is not None and not extreme:
            whole = outcome(ko.infer, jax.random.key(0), kernel, gaussian, x, y, **options)
            assert_numbers(p.mean)
            np.testing.assert_allclose(p.mean, whole.predict(x).mean, rtol=1e-6, atol=1e-8)
