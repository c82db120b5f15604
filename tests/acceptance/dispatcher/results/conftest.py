"""A tenant for each test, and a stack that keeps large outputs in S3."""

from tests.acceptance.dispatcher.inputs.conftest import owner, shared_on_s3

__all__ = ["owner", "shared_on_s3"]
