"""Exceptions and warnings. A message names the call, what it got, and what would work."""

from __future__ import annotations


def printable(text: object, *, lines: bool = False) -> str:
    r"""Text from outside (a column's name, a file's name) that no terminal takes for a command.

    Control characters, among them the escape byte, and characters that turn the direction of writing become visible.

    Arguments:
        text: what is to be printed.
        lines: whether it may have several lines.

    >>> printable("a\x1b[31mred\nb")
    'a\\x1b[31mred\\nb'
    >>> printable("Größe in m²")
    'Größe in m²'
    """
    kept = "\n" if lines else ""
    return "".join(c if c.isprintable() or c == kept else ascii(c)[1:-1] for c in str(text))


class _PrintableError(ValueError):
    """An error whose message may quote names from outside, which must not command a terminal."""

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class InputError(_PrintableError):
    """An argument has the wrong shape, type or value; the message says the remedy."""


class NumericalError(ArithmeticError):
    """A computation broke down in floating point; the message says what to change."""


class DivergenceError(NumericalError):
    """A simulation left the range of floating point; the message says which step would be stable."""


class FileError(_PrintableError):
    """A file cannot be written, or is not what `kosambi.save` wrote; the message names the file and the remedy."""


class ProcessLimitError(RuntimeError):
    """The process is close to a limit of the system that compiling would exceed; the message says the remedy."""


class ForkError(RuntimeError):
    """The process is a fork of one in which JAX had begun to work, so that it would wait for ever; says the remedy."""


class HostError(RuntimeError):
    """Another process of a run on several hosts has ended, or works on something else; the message says what to do."""


class ConvergenceWarning(UserWarning):
    """A sampler stopped before its particles had forgotten where they began."""


class StepSizeWarning(UserWarning):
    """A step is too long for the simulation to be stable."""


class PrecisionWarning(UserWarning):
    """Work that kosambi does in float64 is about to run in float32."""


class RoundingWarning(UserWarning):
    """A number that cannot be negative came out so by more than rounding, and was set to zero."""


class HyperparameterWarning(UserWarning):
    """Hyperparameters were learned from data that say little, or not to the end."""


class DataWarning(UserWarning):
    """A value of the data looks like a mistake, or like a code for a missing one."""


class DomainWarning(UserWarning):
    """A function is evaluated over a wider range than it was drawn for."""


class SupportWarning(UserWarning):
    """A prediction is asked for where the prior has next to no variance."""


class WeightWarning(UserWarning):
    """Importance weights are too uneven for what was made from them."""


class TruncationWarning(UserWarning):
    """Fewer points or functions were kept than were asked for."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the computation went on without."""
