"""What is saved is the file, or nothing."""

import hashlib
from pathlib import Path

import httpx
import msgspec
import pytest
from charonia import Charonia, InvalidInput, InvalidResponse
from charonia.model_schemas import (
    ModelInfo,
    TensorInfo,
)
from charonia.schemas import FileData
from charonia.sources import LARGE

from tests.support.api.client_jobs import BEGINNING, make_succeeded

CONTENT = b"content"


def make_model(inputs: list[TensorInfo]) -> ModelInfo:
    return ModelInfo(
        name="ocr", ready=True, streaming=False, max_batch_size=0, versions=[], inputs=inputs, outputs=[], queue={}
    )


def save(path: Path, sha256: str | None) -> Path:
    """Save the content from a gateway that says that it has this digest."""
    file = FileData(id="f", size=len(CONTENT), sha256=sha256, content_type="a/b", created_at=BEGINNING, expires_at=None)

    def answer(request: httpx.Request) -> httpx.Response:
        is_content = request.url.path.endswith("/content")
        return httpx.Response(200, stream=httpx.ByteStream(CONTENT if is_content else msgspec.json.encode(file)))

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        return Charonia("http://gateway", "k", http=http).files.save("f", path)


@pytest.mark.parametrize("sha256", [hashlib.sha256(CONTENT).hexdigest(), None])
def test_a_file_is_saved(tmp_path: Path, sha256: str | None) -> None:
    assert save(tmp_path / "y", sha256).read_bytes() == CONTENT


def test_a_damaged_file_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidResponse, match="another SHA-256"):
        save(tmp_path / "y", hashlib.sha256(b"other").hexdigest())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("size", "most"), [(2 * LARGE, 2 * LARGE), (2 * LARGE + 1, 2 * LARGE), (2 * LARGE, None)])
def test_a_file_that_an_input_cannot_take_is_not_uploaded(tmp_path: Path, size: int, most: int | None) -> None:
    uploads = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/files":
            uploads.append(request.read())
            file = FileData(id="f", size=size, sha256=None, content_type="a/b", created_at=BEGINNING, expires_at=None)
            return httpx.Response(201, content=msgspec.json.encode(file))
        image = TensorInfo("image", "BYTES", [1], max_bytes=most)
        found = make_model([image]) if request.method == "GET" else make_succeeded([])
        return httpx.Response(200, content=msgspec.json.encode(found))

    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(size)
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = Charonia("http://gateway", "k", http=http)
        if most is None or size <= most:
            client.submit("ocr", image=path)
            assert [len(each) for each in uploads] == [size]
        else:
            with pytest.raises(InvalidInput, match=f"/inputs/image: the file has {size} bytes; .* {most} at most"):
                client.submit("ocr", image=path)
            assert uploads == []
