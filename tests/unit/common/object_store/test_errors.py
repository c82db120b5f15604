"""Names of errors, from messages as obstore 0.12 writes them."""

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from common.errors import (
    CharoniaError,
    StoreDenied,
    StoreFull,
    StoreNotFound,
    StoreRangeInvalid,
    StoreUnavailable,
)
from common.object_store.errors import name_error

GET = "Error performing GET http://h:1/b/k in 2ms - Server returned non-2xx status code:"
REDIRECT = (
    "Error performing HEAD http://h:1/b/k in 2ms - Received redirect without LOCATION, this normally indicates an "
    "incorrectly configured region"
)
SECRET = "\n\nDebug source:\nhidden"
XML = '<?xml version="1.0"?>\n<Error><Code>{}</Code><Message>x</Message></Error>'


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GenericError(f"Generic S3 error: {GET} 403 Forbidden: {XML.format('SignatureDoesNotMatch')}"), StoreDenied),
        (PermissionDeniedError(f"The operation lacked privileges: {GET} 403 Forbidden: "), StoreDenied),
        (FileNotFoundError(f"Object at location k not found: {GET} 404: {XML.format('NoSuchBucket')}"), StoreDenied),
        (GenericError(f"Generic S3 error: {GET} 404 Not Found: {XML.format('NoSuchBucket')}"), StoreDenied),
        (GenericError(f"{GET} 400 Bad Request: {XML.format('AuthorizationHeaderMalformed')}"), StoreDenied),
        (GenericError(f"Generic S3 error: {REDIRECT}"), StoreDenied),
        (GenericError("LocalFileSystem error: Unable to open file /s/k: Permission denied (os error 13)"), StoreDenied),
        (GenericError("LocalFileSystem error: Read-only file system (os error 30)"), StoreDenied),
        (GenericError("Unable to copy data to file: No space left on device (os error 28)"), StoreFull),
        (OSError("Unable to copy data to file: No space left on device (os error 28)"), StoreFull),
        (OSError("Unable to copy data to file: Disk quota exceeded (os error 122)"), StoreFull),
        (GenericError(f"Generic S3 error: {GET} 507 Insufficient Storage: "), StoreFull),
        (FileNotFoundError(f"Object at location k not found: {GET} 404 Not Found: "), StoreNotFound),
        (FileNotFoundError("Object at location /s/k not found: No such file (os error 2)"), StoreNotFound),
        (GenericError(f"Generic S3 error: {GET} 416 Range Not Satisfiable: "), StoreRangeInvalid),
        (GenericError("Generic LocalFileSystem error: Requested range was invalid"), StoreRangeInvalid),
        (GenericError(f"Generic S3 error: {GET} 503 Slow Down: "), StoreUnavailable),
        (GenericError("Generic S3 error: HTTP error: error sending request"), StoreUnavailable),
    ],
)
def test_an_error_gets_its_name(error: Exception, kind: type[CharoniaError]) -> None:
    assert type(name_error(error, "X")) is kind


def test_the_message_says_what_to_check_and_is_one_short_line() -> None:
    error = GenericError(f"Generic S3 error: {GET} 403 Forbidden: {XML.format('InvalidAccessKeyId')}{SECRET}")
    assert str(name_error(error, "AWS_ACCESS_KEY_ID")) == (
        "The object store denies access (InvalidAccessKeyId). Check AWS_ACCESS_KEY_ID. "
        f"It said: Generic S3 error: {GET} 403 Forbidden:"
    )
    assert len(str(name_error(GenericError("x" * 10_000), "Y"))) < 500


def test_a_bucket_in_another_region_is_called_that() -> None:
    text = str(name_error(GenericError(f"Generic S3 error: {REDIRECT}"), "AWS_REGION"))
    assert text.startswith("The object store denies access (the bucket is in another region). Check AWS_REGION.")


def test_missing_credentials_are_a_hint() -> None:
    error = GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error")
    assert "Check AWS_ACCESS_KEY_ID." in str(name_error(error, "AWS_ACCESS_KEY_ID"))
