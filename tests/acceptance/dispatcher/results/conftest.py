"""Stacks that keep large outputs in a folder, and in S3."""

from tests.acceptance.dispatcher.inputs.conftest import owner, shared_on_s3, url

__all__ = ["owner", "shared_on_s3", "url"]
