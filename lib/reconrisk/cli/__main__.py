"""``python -m reconrisk.cli``: the command line where ``reconrisk`` is not on the path."""

from reconrisk.cli import main

if __name__ == "__main__":
    main()
