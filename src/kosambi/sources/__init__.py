"""Rows as a stream: more of them than fit into memory, read from their place as often as they are needed.

    file, arrays, iterators ─► source ─► Stream (passes of blocks, checked) ─► Survey (counts, moments, a sample)

`kosambi.infer`, the estimators and `kosambi fit` take a source in place of arrays.
"""

from kosambi.sources.arrays import ArraySource, BlockSource
from kosambi.sources.base import AbstractRowSource, Part
from kosambi.sources.csv import CSVSource
from kosambi.sources.memory import as_bytes
from kosambi.sources.parquet import ParquetSource
from kosambi.sources.passes import Block, Stream
from kosambi.sources.shares import SharedSource
from kosambi.sources.survey import Sample, Survey, survey

__all__ = [
    "AbstractRowSource",
    "ArraySource",
    "Block",
    "BlockSource",
    "CSVSource",
    "ParquetSource",
    "Part",
    "Sample",
    "SharedSource",
    "Stream",
    "Survey",
    "as_bytes",
    "survey",
]
