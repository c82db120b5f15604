"""Errors of the demo."""

from deploy.local.errors import LocalError


class DemoFailed(LocalError):
    """The stack did not do what it promises."""
