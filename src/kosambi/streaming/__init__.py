"""Posteriors of rows that are read as a stream; `kosambi.infer` and the estimators come here with a source."""

from kosambi.streaming.rows import check_streamable, infer_rows
from kosambi.streaming.source import check_arguments, infer_source, planned

__all__ = ["check_arguments", "check_streamable", "infer_rows", "infer_source", "planned"]
