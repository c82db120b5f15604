"""What a process is called, in the database and at the broker."""

import os
import secrets
import socket


def name_process() -> str:
    """Unlike that of any other, also of one with the same pid in another container."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
