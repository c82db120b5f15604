"""The signature is botocore's for the same request, and no URL is signed with a secret that is not its own."""

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import obstore
import pytest
from botocore.credentials import Credentials
from obstore.store import S3Store

from common.object_store.signed_length import sign_length
from tests.support.s3.signatures import read_claim, recompute

if TYPE_CHECKING:
    from obstore.store import S3Config

SECRET = {"AWS_SECRET_ACCESS_KEY": "secret/of+the=key"}
KEY = "tenant/a b+c~ü/content"
TOKEN = "token/with+signs~=="


def presign(config: "S3Config | None" = None) -> str:
    known: S3Config = {
        "access_key_id": "key",
        "secret_access_key": SECRET["AWS_SECRET_ACCESS_KEY"],
        "region": "eu-central-1",
    }
    store = S3Store("bucket", prefix="some/prefix", config=known | (config or {}))
    return obstore.sign(store, "PUT", KEY, timedelta(minutes=15))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"session_token": TOKEN},
        {"endpoint": "http://127.0.0.1:9000"},
        {"endpoint": "https://bucket.store.example:8443", "virtual_hosted_style_request": True},
    ],
)
def test_the_signature_is_that_of_the_request_with_its_length(config: "S3Config") -> None:
    url = sign_length(presign(config), "PUT", 1234, SECRET)
    assert url is not None
    headers = {"host": urlsplit(url).netloc, "content-length": "1234"}
    claim = read_claim(url, headers)
    assert claim.signed_headers == ["content-length", "host"]
    query = dict(parse_qsl(urlsplit(url).query))
    credentials = Credentials("key", SECRET["AWS_SECRET_ACCESS_KEY"], query.get("X-Amz-Security-Token"))
    assert recompute("PUT", url, headers, claim, credentials) == claim.signature
    assert recompute("PUT", url, headers | {"content-length": "1235"}, claim, credentials) != claim.signature


@pytest.mark.parametrize("environment", [{}, {"AWS_SECRET_ACCESS_KEY": "of another key"}])
def test_a_url_that_was_signed_with_another_secret_stays_as_it_is(environment: dict[str, str]) -> None:
    assert sign_length(presign(), "PUT", 1234, environment) is None
