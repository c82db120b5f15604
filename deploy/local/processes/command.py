"""Runs programs that end by themselves, with a deadline; an error has all that they printed."""

import subprocess
from collections.abc import Mapping, Sequence

from deploy.local.errors import CommandFailed


def run(argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> str:
    """Return what the program prints; raise CommandFailed if it fails or takes more than `timeout` seconds."""
    shown = " ".join(argv[:6])
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout
        )
    except FileNotFoundError as error:
        raise CommandFailed(f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        printed = b"".join(filter(None, (error.stdout, error.stderr))).decode(errors="replace")
        raise CommandFailed(f"{shown} … did not end within {timeout:g} s:\n{printed}".strip()) from error
    if done.returncode != 0:
        raise CommandFailed(f"{shown} … ended with code {done.returncode}:\n{(done.stdout + done.stderr).strip()}")
    return done.stdout


def succeeds(argv: Sequence[str], *, timeout: float) -> bool:
    """Return whether the program ends with code 0 within `timeout` seconds."""
    try:
        run(argv, timeout=timeout)
    except CommandFailed:
        return False
    return True
