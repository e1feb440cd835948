"""Fits of a source of rows, or within a limit of memory: rows that fit are held, all others are read in blocks."""

from kosambi.streaming.held import Asked, chosen, read, reported, why_not, without_use
from kosambi.streaming.limited import within
from kosambi.streaming.source import infer_source, planned

__all__ = ["Asked", "chosen", "infer_source", "planned", "read", "reported", "why_not", "within", "without_use"]
