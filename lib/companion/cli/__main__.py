"""``python -m companion.cli``, for where the command is not on the path."""

from companion.cli import main

if __name__ == "__main__":
    main()
