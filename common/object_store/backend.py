"""Opens the object store of a URL. Nothing connects before the first call."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from common.errors import SettingsError

Backend = LocalStore | S3Store | GCSStore | AzureStore
VARIABLE = "CHARONIA_STORE_URL"
ENDPOINT_VARIABLE = "CHARONIA_STORE_PUBLIC_ENDPOINT"
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
CONNECT_SECONDS = 5
MAX_RETRIES = 3
MAX_BACKOFF_SECONDS = 2
WHOLE_REQUEST = timedelta(days=1)  # a download may take long; its parts have deadlines
ADVICE = {
    "file": "owner, permissions and mount of the folder in CHARONIA_STORE_URL",
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and the bucket in CHARONIA_STORE_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS and the bucket in CHARONIA_STORE_URL",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and the container in CHARONIA_STORE_URL",
}


def open_presigner(url: str, deadline: float, endpoint: str) -> S3Store:
    """Return an S3 store that signs URLs for clients that reach it at another address. It is not connected to.

    Raise SettingsError for a store of another kind.
    """
    if scheme_of(url) != "s3":
        raise SettingsError(f"{ENDPOINT_VARIABLE} is wrong: only an s3:// store has one. Remove it.")
    client = _client_options(deadline, {"AWS_ENDPOINT_URL": endpoint})
    return S3Store.from_url(url, endpoint=endpoint, client_options=client)


def open_backend(url: str, deadline: float, environ: Mapping[str, str] = os.environ) -> Backend:
    """Return the store of a URL as obstore has it. Raise SettingsError, with the name of the variable.

    Credentials come from the environment variables of each cloud, such as `AWS_ACCESS_KEY_ID`.
    """
    try:
        if (scheme := scheme_of(url)) == "file":
            return _open_folder(Path(unquote(urlsplit(url).path)))
        client, retry = _client_options(deadline, environ), _retry_options(deadline)
        match scheme:
            case "s3":
                return S3Store.from_url(url, client_options=client, retry_config=retry)
            case "gs":
                return GCSStore.from_url(url, client_options=client, retry_config=retry)
            case "az":
                return AzureStore.from_url(url, client_options=client, retry_config=retry)
    except (BaseError, OSError, ValueError) as error:
        text = str(error).partition("\n\nDebug source")[0]
        raise SettingsError(f"{VARIABLE} is wrong: {text}. Check {ADVICE.get(scheme, 'it')}.") from error
    raise SettingsError(f"{VARIABLE} is wrong: expected file:///folder, s3://bucket, gs://bucket or az://container.")


def scheme_of(url: str) -> str:
    return urlsplit(url).scheme


def _open_folder(root: Path) -> LocalStore:
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    return LocalStore(root, automatic_cleanup=True)


def _client_options(deadline: float, environ: Mapping[str, str]) -> "obstore.store.ClientConfig":
    return {
        "connect_timeout": timedelta(seconds=min(CONNECT_SECONDS, deadline)),
        "read_timeout": timedelta(seconds=deadline),
        "timeout": WHOLE_REQUEST,
        # Only where the operator wrote http:// for a store of their own.
        "allow_http": any(environ.get(name, "").startswith("http://") for name in ENDPOINTS),
    }


def _retry_options(deadline: float) -> "obstore.store.RetryConfig":
    return {
        "max_retries": MAX_RETRIES,
        "retry_timeout": timedelta(seconds=deadline),
        "backoff": {"max_backoff": timedelta(seconds=MAX_BACKOFF_SECONDS)},
    }
