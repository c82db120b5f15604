"""What a failed test says: the frames of this repository, and what the stack's processes warned about lately."""

import re
from collections import deque
from collections.abc import Iterator

from deploy.local.stack import Stack

FOREIGN_FRAME = re.compile(r'  File "[^"]*(/site-packages/|/lib/python3)')
TROUBLE = re.compile(r'"level":"(warning|error|critical)"|^[EF]\d{4} |Signal|Traceback')
LINES, LONGEST = 8, 400  # of each process


def drop_foreign_frames(traceback: list[str]) -> list[str]:
    """Return a native traceback without the frames of libraries, which are most of it in a test with HTTP."""
    kept, dropping = [], False
    for line in "".join(traceback).splitlines(keepends=True):
        if line.startswith("  File "):
            dropping = FOREIGN_FRAME.match(line) is not None
        elif not line.startswith("    "):
            dropping = False
        if not dropping:
            kept.append(line)
    return kept


def describe_trouble(stack: Stack) -> Iterator[str]:
    """Return a line for each process that is not running, and the last warnings in each log."""
    for member in (*stack.servers, *stack.services):
        process = member.process
        if not process.running:
            yield f"{member.name} is not running, exit code {process.returncode}"
        if process.log.path.exists():
            with process.log.path.open(errors="replace") as lines:
                troubles = deque((line for line in lines if TROUBLE.search(line)), LINES)
            yield from (f"{member.name}: {line.strip()[:LONGEST]}" for line in troubles)
