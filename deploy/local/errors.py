"""Errors of the local stack. Their messages are for the person who started it."""


class LocalError(Exception):
    """The local stack cannot run."""


class InvalidSetting(LocalError):
    """An environment variable has an invalid value."""


class MissingPrograms(LocalError):
    """Programs of the operating system are not installed."""


class PortTaken(LocalError):
    """Another process listens on a port that the stack needs."""


class StackLocked(LocalError):
    """The same stack is already running."""


class CommandFailed(LocalError):
    """A program that prepares a server failed or took too long."""


class ProcessDied(LocalError):
    """A process ended that should still run."""


class NotReady(LocalError):
    """A process did not become ready in time."""
