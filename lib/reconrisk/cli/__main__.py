"""``python -m reconrisk.cli``, for where the command is not on the path."""

from reconrisk.cli import main

if __name__ == "__main__":
    main()
