"""Runs the command line: `python -m charonia.cli`."""

from charonia.cli.main import main

if __name__ == "__main__":
    main()
