"""What every public call promises: finite float64 numbers of a known shape, or an error that says what to do."""

from __future__ import annotations

import contextlib
import traceback
import warnings

import numpy as np

from kosambi import errors

WARNINGS = (
    errors.ConvergenceWarning,
    errors.StepSizeWarning,
    errors.RoundingWarning,
    errors.HyperparameterWarning,
    errors.DataWarning,
    errors.DomainWarning,
    errors.SupportWarning,
    errors.WeightWarning,
    errors.TruncationWarning,
)
"""What degenerate data may be warned of. Other warnings, such as NumPy's of an overflow, are failures."""
REFUSALS = (errors.InputError, errors.NumericalError)


@contextlib.contextmanager
def own_warnings_allowed():
    with warnings.catch_warnings():
        for category in WARNINGS:
            warnings.simplefilter("ignore", category)
        yield


def outcome(call, *args, **kwargs):
    """What the call returns, or None where it refuses in words that help; every other exception passes."""
    with own_warnings_allowed():
        try:
            return call(*args, **kwargs)
        except REFUSALS as error:
            refusal = error
        except ValueError as error:
            # Estimators check tables by scikit-learn's functions, whose messages its users know.
            if not any("sklearn" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
                raise
            return None
    assert_helpful(refusal)
    return None


def assert_helpful(error):
    """The message is in whole sentences, names what it is about, and says what came or what to do."""
    text = str(error)
    assert len(text.split()) >= 6, text
    assert text.rstrip().endswith((".", "`.", ")")), text
    if isinstance(error, errors.InputError):
        assert "`" in text or ". " in text, text


def assert_numbers(value, shape=None, *, finite=True):
    """A NumPy float64 array of this shape, all of it finite."""
    assert isinstance(value, np.ndarray), type(value)
    assert value.dtype == np.float64, value.dtype
    if shape is not None:
        assert value.shape == shape, (value.shape, shape)
    if finite:
        assert np.isfinite(value).all(), value


def assert_covariance(matrix, size):
    """Symmetric and positive semi-definite, but for rounding."""
    assert_numbers(matrix, (size, size))
    scale = np.max(np.abs(matrix), initial=0.0)
    if not scale > 0:
        return
    unit = matrix / scale
    np.testing.assert_allclose(unit, unit.T, rtol=0, atol=1e-13)
    assert np.linalg.eigvalsh(0.5 * (unit + unit.T))[0] > -1e-10


def raised(call, *args, **kwargs):
    """The error of kosambi that the call must raise, in words that help."""
    with own_warnings_allowed():
        try:
            found = call(*args, **kwargs)
        except REFUSALS as error:
            refusal = error
        else:
            raise AssertionError(f"nothing was refused, and the call returned {found!r}")
    assert_helpful(refusal)
    return str(refusal)
