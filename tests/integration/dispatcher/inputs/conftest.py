"""The stores of the tests of the object store: a local folder, and S3 over HTTP where a test asks for it."""

from tests.integration.common.object_store.conftest import bucket, folder, store
from tests.integration.places import one_place

__all__ = ["bucket", "folder", "one_place", "store"]
