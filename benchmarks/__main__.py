"""`python -m benchmarks [aims|speed|…]` measures private stacks; benchmarks/method.md explains the figures."""

import sys

if __name__ == "__main__":  # child processes import this file under another name, and need no more of it
    from benchmarks.command_line import main

    sys.exit(main())
