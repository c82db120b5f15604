"""Which store a URL opens."""

from pathlib import Path

import pytest
from obstore.store import GCSStore, LocalStore, S3Store

from common.errors import SettingsError
from common.object_store.backend import open_backend, open_presigner


def test_a_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    root = tmp_path / "a folder" / "store"
    backend = open_backend(root.as_uri(), 5)
    assert isinstance(backend, LocalStore)
    assert backend.prefix == root
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_bucket_may_have_a_prefix() -> None:
    backend = open_backend("s3://bucket/a/b", 5)
    assert isinstance(backend, S3Store)
    assert (backend.config["bucket"], backend.prefix) == ("bucket", "a/b")
    assert isinstance(open_backend("gs://bucket", 5), GCSStore)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "https://store.example", ""])
def test_plain_http_is_allowed_only_where_the_operator_wrote_it(endpoint: str) -> None:
    backend = open_backend("s3://bucket", 5, {"AWS_ENDPOINT_URL": endpoint})
    assert isinstance(backend, S3Store)
    options = backend.client_options
    assert options is not None
    assert str(options["allow_http"]).lower() == str(endpoint.startswith("http://")).lower()


@pytest.mark.parametrize("url", ["file:///tmp", "gs://bucket"])
def test_only_s3_has_another_address_for_clients(url: str) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_STORE_PUBLIC_ENDPOINT is wrong: only an s3:// store has one"):
        open_presigner(url, 5, "http://store.example")


@pytest.mark.parametrize("url", ["ftp://h/x", "", "s3://", "file:///proc/not/there", "az://container"])
def test_a_url_that_opens_nothing_is_explained(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(SettingsError, match=r"^CHARONIA_STORE_URL is wrong: "):
        open_backend(url, 5)
