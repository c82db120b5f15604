"""Checks signatures of AWS, version 4, by recomputing them with botocore."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit, urlunsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ALGORITHM = "AWS4-HMAC-SHA256"
TIMESTAMP = "%Y%m%dT%H%M%SZ"
MAX_SKEW = timedelta(minutes=15)


@dataclass
class Refusal(Exception):
    """Why S3 refuses a request, with the code that S3 uses. The status is always 403."""

    code: str
    message: str


@dataclass(frozen=True)
class _Claim:
    """What a request says about its own signature."""

    access_key: str
    region: str
    service: str
    signed_headers: list[str]
    signature: str
    timestamp: str
    lifetime: timedelta | None  # of a presigned URL


def check_signature(method: str, url: str, headers: Mapping[str, str], credentials: Credentials, now: datetime) -> None:
    """Raise Refusal unless the request is signed with these credentials. `url` is exactly as received."""
    claim = read_claim(url, headers)
    if claim.access_key != credentials.access_key:
        raise Refusal("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    check_time(claim, now)
    if not hmac.compare_digest(recompute(method, url, headers, claim, credentials), claim.signature):
        raise Refusal("SignatureDoesNotMatch", "The request signature we calculated does not match the signature.")


def read_claim(url: str, headers: Mapping[str, str]) -> _Claim:
    """Return the signature of the header Authorization or of a presigned URL."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    try:
        if query.get("X-Amz-Algorithm") == ALGORITHM:
            credential, signed, signature = (
                query[f"X-Amz-{name}"] for name in ("Credential", "SignedHeaders", "Signature")
            )
            timestamp, lifetime = query["X-Amz-Date"], timedelta(seconds=int(query["X-Amz-Expires"]))
        else:
            algorithm, _, rest = headers["authorization"].partition(" ")
            if algorithm != ALGORITHM:
                raise Refusal("AccessDenied", "Unsupported authorization.")
            fields = dict(part.strip().split("=", 1) for part in rest.split(","))
            credential, signed, signature = fields["Credential"], fields["SignedHeaders"], fields["Signature"]
            timestamp, lifetime = headers["x-amz-date"], None
        access_key, _date, region, service, _ = credential.split("/")
    except (KeyError, ValueError) as error:
        raise Refusal("AccessDenied", "The request is not signed.") from error
    return _Claim(access_key, region, service, signed.split(";"), signature, timestamp, lifetime)


def check_time(claim: _Claim, now: datetime) -> None:
    signed_at = datetime.strptime(claim.timestamp, TIMESTAMP).replace(tzinfo=UTC)
    if claim.lifetime is None and abs(now - signed_at) > MAX_SKEW:
        raise Refusal("RequestTimeTooSkewed", "The difference between the request time and the time is too large.")
    if claim.lifetime is not None and now > signed_at + claim.lifetime:
        raise Refusal("AccessDenied", "Request has expired")


def recompute(method: str, url: str, headers: Mapping[str, str], claim: _Claim, credentials: Credentials) -> str:
    """Return the signature that the request should have."""
    kind = S3SigV4Auth if claim.lifetime is None else S3SigV4QueryAuth
    auth = kind(credentials, claim.service, claim.region)
    parts = urlsplit(url)
    query = "&".join(pair for pair in parts.query.split("&") if not pair.startswith("X-Amz-Signature="))
    signed = {name: headers.get(name, "") for name in claim.signed_headers}
    request = AWSRequest(method, urlunsplit(parts._replace(query=query)), headers=signed)
    request.context["timestamp"] = claim.timestamp
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return str(auth.signature(text, request))
