"""The S3 server of the tests accepts what botocore signs, and nothing else."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.s3.signatures import Refusal, check_signature

CREDENTIALS = Credentials("key", "secret")
URL = "http://127.0.0.1:9000/bucket/some%20key?uploads=&partNumber=2"


def sign(payload: str, url: str = URL) -> tuple[str, dict[str, str]]:
    request = AWSRequest("PUT", url, headers={"Host": "127.0.0.1:9000"}, data=b"12345")
    request.context["client_config"] = SimpleNamespace(s3={"payload_signing_enabled": payload == "signed"})
    if payload.startswith("STREAMING"):
        request.context["checksum"] = {"request_algorithm": {"in": "trailer", "algorithm": "crc32", "name": "x"}}
    S3SigV4Auth(CREDENTIALS, "s3", "eu-west-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert payload in (headers["x-amz-content-sha256"], "signed")
    return request.url, headers


def presign(seconds: int) -> str:
    request = AWSRequest("GET", URL)
    S3SigV4QueryAuth(CREDENTIALS, "s3", "eu-west-1", expires=seconds).add_auth(request)
    return str(request.url)


def refuse(method: str, url: str, headers: dict[str, str], now: datetime | None = None) -> str:
    with pytest.raises(Refusal) as caught:
        check_signature(method, url, headers, CREDENTIALS, now or datetime.now(UTC))
    return caught.value.code


@pytest.mark.parametrize("payload", ["signed", "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"])
def test_a_signed_request_is_accepted(payload: str) -> None:
    url, headers = sign(payload)
    check_signature("PUT", url, headers, CREDENTIALS, datetime.now(UTC))
    assert refuse("DELETE", url, headers) == "SignatureDoesNotMatch"
    assert refuse("PUT", url.replace("bucket", "other"), headers) == "SignatureDoesNotMatch"
    assert refuse("PUT", url.replace("=2", "=3"), headers) == "SignatureDoesNotMatch"
    assert refuse("PUT", url, headers | {"x-amz-content-sha256": "0" * 64}) == "SignatureDoesNotMatch"
    assert refuse("PUT", url, headers, datetime.now(UTC) + timedelta(minutes=16)) == "RequestTimeTooSkewed"


def test_a_presigned_url_is_accepted_until_it_expires() -> None:
    url = presign(60)
    host = {"host": "127.0.0.1:9000"}
    check_signature("GET", url, host, CREDENTIALS, datetime.now(UTC))
    assert refuse("PUT", url, host) == "SignatureDoesNotMatch"
    assert refuse("GET", url.replace("Expires=60", "Expires=90"), host) == "SignatureDoesNotMatch"
    assert refuse("GET", url, host, datetime.now(UTC) + timedelta(seconds=62)) == "AccessDenied"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "AccessDenied"),
        ({"authorization": "Basic eDp5"}, "AccessDenied"),
        ({"authorization": "AWS4-HMAC-SHA256 nonsense", "x-amz-date": "20260101T000000Z"}, "AccessDenied"),
    ],
)
def test_a_request_without_a_signature_is_refused(headers: dict[str, str], code: str) -> None:
    assert refuse("GET", URL, headers) == code


def test_another_access_key_is_refused() -> None:
    url, headers = sign("signed")
    other = headers | {"authorization": headers["authorization"].replace("Credential=key/", "Credential=other/")}
    assert refuse("PUT", url, other) == "InvalidAccessKeyId"
