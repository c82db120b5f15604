"""URLs of files for models, and jobs whose model has changed since the submit."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest

from common import ids
from common.object_store.store import MAX_LIFETIME, ObjectStore
from common.security.signed_urls import UrlSigner
from common.tensors import Datatype, FileContent, Signature, Tensor
from services.dispatcher.inputs.references import SPARE, FileUrls, fit_references
from services.dispatcher.triton.errors import InferenceError

FILE = UUID(int=7)
SIGNER = UrlSigner(["k" * 32])
REFERENCE, PLAIN = (Signature("x", Datatype.BYTES, [1], reference=each) for each in (True, False))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ObjectStore]:
    store = ObjectStore((tmp_path / "store").as_uri())
    yield store
    store.close()


def tensor(data: bytes | FileContent) -> Tensor:
    return Tensor("x", Datatype.BYTES, [1], data)


@pytest.mark.parametrize(
    ("timeout", "lifetime"), [(60.0, timedelta(seconds=60) + SPARE), (30 * 86_400.0, MAX_LIFETIME)]
)
async def test_a_url_of_the_gateway_lasts_for_the_attempt(
    folder: ObjectStore, timeout: float, lifetime: timedelta
) -> None:
    now = datetime.now(UTC)
    parts = urlsplit(await FileUrls(folder, SIGNER, "http://gateway:8080/").sign(ids.new(), FILE, timeout))
    assert (parts.netloc, parts.path) == ("gateway:8080", f"/v1/files/{ids.encode(ids.Kind.FILE, FILE)}/content")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    expires = int(query["expires"])
    assert SIGNER.is_valid(FILE, expires, query["signature"])
    assert abs(expires - (now + lifetime).timestamp()) < 30


async def test_without_any_url_the_job_fails_for_good(folder: ObjectStore) -> None:
    with pytest.raises(InferenceError) as caught:
        await FileUrls(folder, SIGNER, "").sign(ids.new(), FILE, 60.0)
    failure = caught.value.failure
    assert (failure.code, failure.retryable, "CHARONIA_GATEWAY_URL" in failure.message) == ("unsupported", False, True)


def test_a_file_is_given_as_the_model_takes_it_now() -> None:
    read, referred = (tensor(FileContent(FILE, 0, 5, by_reference=each)) for each in (False, True))
    assert fit_references([read], [PLAIN]) == [read]
    assert fit_references([read], [REFERENCE]) == [referred]
    assert fit_references([referred], [REFERENCE]) == [referred]
    assert fit_references([tensor(b"")], [PLAIN]) == [tensor(b"")]


@pytest.mark.parametrize(
    ("given", "declared", "wanted"),
    [
        (FileContent(FILE, 0, 5, by_reference=True), PLAIN, "data"),
        (bytes(4), REFERENCE, "a reference to a file"),
        (FileContent(FILE, 0, 5, inline=True), REFERENCE, "a reference to a file"),
    ],
)
def test_a_job_fails_if_its_model_has_changed(given: bytes | FileContent, declared: Signature, wanted: str) -> None:
    with pytest.raises(InferenceError, match=f"has changed since the submit and takes {wanted} now") as caught:
        fit_references([tensor(given)], [declared])
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("invalid_input", False)
