"""Stacks that keep large outputs in a folder, and in S3."""

from tests.acceptance.dispatcher.inputs.conftest import owner

__all__ = ["owner"]
