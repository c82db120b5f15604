"""Signs the length of an upload into a presigned URL of S3, which obstore does not.

Only then does S3 refuse any other length. This is version 4 of AWS's signatures, in a query:
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

SECRET_VARIABLE = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 -- its name
SIGNATURE = "X-Amz-Signature"
SIGNED_HEADERS = "X-Amz-SignedHeaders"


def sign_length(url: str, method: str, length: int, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the presigned URL so that it only takes a body of `length` bytes.

    Return None if obstore signed it with the credentials of a role: it does not say their secret.
    """
    parts, secret = urlsplit(url), environ.get(SECRET_VARIABLE, "")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    signature = query.pop(SIGNATURE, "")
    known = {"host": parts.netloc}
    if not hmac.compare_digest(_sign(method, parts.path, query, known, secret), signature):
        return None
    query[SIGNED_HEADERS] = "content-length;host"
    signature = _sign(method, parts.path, query, {"content-length": str(length)} | known, secret)
    return parts._replace(query=_encode(query | {SIGNATURE: signature})).geturl()


def _sign(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], secret: str) -> str:
    """Return the signature of a request whose headers are sorted by their lower-case names."""
    lines = [f"{name}:{value}\n" for name, value in headers.items()]
    request = "\n".join([method, path, _encode(query), "".join(lines), ";".join(headers), "UNSIGNED-PAYLOAD"])
    _, *scope = query.get("X-Amz-Credential", "").split("/")  # the id of the key; day, region, service, aws4_request
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join([query.get("X-Amz-Algorithm", ""), query.get("X-Amz-Date", ""), "/".join(scope), digest])
    key = f"AWS4{secret}".encode()
    for part in (*scope, text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _encode(query: Mapping[str, str]) -> str:
    return urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
