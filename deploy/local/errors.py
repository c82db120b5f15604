"""What can go wrong when the local stack is started. Messages are meant for the person who started it."""


class LocalError(Exception):
    """The local stack cannot run."""


class InvalidSetting(LocalError):
    """A variable has a value that cannot be used."""


class MissingPrograms(LocalError):
    """Programs of the operating system are not installed."""


class PortTaken(LocalError):
    """Something else listens on a port that the stack needs."""


class StackLocked(LocalError):
    """The same stack runs already."""


class CommandFailed(LocalError):
    """A program that prepares a server failed or took too long."""


class ProcessDied(LocalError):
    """A process ended that should be running."""


class NotReady(LocalError):
    """A process runs but did not become ready in time."""
