"""Which environments open buckets beside Charonia's own."""

import pytest

from common.errors import SettingsError
from common.locations.buckets import HOST_VARIABLE, Buckets
from common.object_store.backend import ENDPOINTS

OWN = "https://own-bucket.example.com"


@pytest.mark.parametrize("endpoint", [name for name in ENDPOINTS if name.startswith("AWS_")])
@pytest.mark.parametrize("value", ["true", "True", "1", "yes"])
def test_an_endpoint_with_a_bucket_in_its_host_opens_no_other(endpoint: str, value: str) -> None:
    buckets = Buckets(1.0, {endpoint: OWN, HOST_VARIABLE: value})
    with pytest.raises(SettingsError, match=rf"{HOST_VARIABLE} is wrong: .* {endpoint} names a single bucket"):
        buckets.open("another")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"AWS_ENDPOINT_URL": OWN},
        {"AWS_ENDPOINT_URL": OWN, HOST_VARIABLE: "false"},
        {HOST_VARIABLE: "true"},  # AWS itself: obstore puts the bucket into the host
        {"AZURE_STORAGE_ENDPOINT": OWN, HOST_VARIABLE: "true"},
    ],
)
def test_other_environments_open_every_bucket(environ: dict[str, str]) -> None:
    buckets = Buckets(1.0, environ)
    assert buckets.open("another") is buckets.open("another")
    buckets.close()
