"""`python -m reproduction`."""

from kosambi.cli._exits import heeding_signals

if __name__ == "__main__":
    with heeding_signals():
        from reproduction.command import main

        main()
