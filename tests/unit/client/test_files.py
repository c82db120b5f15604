"""What is saved is the file, or nothing."""

import hashlib
from pathlib import Path

import httpx
import msgspec
import pytest
from charonia import Charonia, InvalidResponse
from charonia.schemas import FileData

from tests.support.api.client_jobs import BEGINNING

CONTENT = b"content"


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
