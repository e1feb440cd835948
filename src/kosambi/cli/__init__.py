"""The command line: `kosambi fit`, `predict`, `report`, `demo`, `reproduce` and `doctor`.

Commands are thin: `kosambi.tables` reads, the estimators fit, `kosambi.page` draws. What is heavy is imported when a
command runs, so that `--help` answers at once.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the program `kosambi` and of `python -m kosambi`."""
    from kosambi.cli._exits import heeding_signals

    with heeding_signals():
        from kosambi.cli._app import app

        app(prog_name="kosambi")
