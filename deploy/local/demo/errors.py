"""What can go wrong in the demo beyond the stack itself."""

from deploy.local.errors import LocalError


class DemoFailed(LocalError):
    """Something did not happen as promised."""
