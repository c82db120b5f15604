"""Opens the object stores of buckets beside Charonia's own, with the same credentials."""

import os
from collections.abc import Mapping

from common.errors import SettingsError
from common.object_store.backend import ENDPOINTS
from common.object_store.store import ObjectStore

HOST_VARIABLE = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"
_OFF = {"", "0", "false", "off", "no", "n"}


class Buckets:
    """Stores that are opened once. There are as many as operators allow."""

    def __init__(self, deadline: float, environ: Mapping[str, str] = os.environ) -> None:
        """`deadline` is that of each step, in seconds."""
        self._deadline = deadline
        self._environ = environ
        self._stores: dict[str, ObjectStore] = {}

    def open(self, bucket: str) -> ObjectStore:
        """Return the store of a whole bucket. Raises SettingsError if the variables `AWS_*` cannot open it."""
        if bucket not in self._stores:
            check_endpoint(self._environ)
            self._stores[bucket] = ObjectStore(f"s3://{bucket}", self._deadline)
        return self._stores[bucket]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


def check_endpoint(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for an endpoint that has a bucket in its host: obstore would read that one for each name."""
    set_here = [name for name in ENDPOINTS if name.startswith("AWS_") and environ.get(name)]
    if set_here and environ.get(HOST_VARIABLE, "").lower() not in _OFF:
        raise SettingsError(
            f"{HOST_VARIABLE} is wrong: with it, {set_here[0]} names a single bucket, and no other can be opened. "
            f"Remove {HOST_VARIABLE}, and the bucket from {set_here[0]}."
        )
