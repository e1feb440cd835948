"""`python -m kosambi`: the command line."""

from kosambi.cli import main

if __name__ == "__main__":
    main()
