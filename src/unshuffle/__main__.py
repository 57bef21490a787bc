"""``python -m unshuffle`` is the command ``unshuffle``."""

from unshuffle.cli import main

if __name__ == "__main__":
    main()
