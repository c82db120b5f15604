"""The stores of the tests of the object store: a local folder, and S3 over HTTP."""

from tests.integration.common.object_store.conftest import bucket, folder, place, store

__all__ = ["bucket", "folder", "place", "store"]
