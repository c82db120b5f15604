"""The name of a process, for the database and the broker."""

import os
import secrets
import socket


def name_process() -> str:
    """Return a unique name, even if another container has the same host name and pid."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
