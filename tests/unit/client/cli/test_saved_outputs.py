"""Responses in files and inline ones of the same output are shown and saved together."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import msgspec
import pytest
from charonia import Charonia
from charonia.cli.results import shorten, to_json
from charonia.cli.saved_outputs import save_outputs
from charonia.cli.session import Session
from charonia.results import Result
from charonia.schemas import FileData, Output

from tests.support.api.client_jobs import BEGINNING, make_succeeded

PNG = b"\x89PNG\r\n\x1a\n" + bytes(300_000)
TEXT = "größe " * 60_000
FILES = {"file_png": PNG, "file_text": TEXT.encode(), "file_sound": b"\xff\x00" * 200_000}


def answer(request: httpx.Request) -> httpx.Response:
    """Be a gateway that has FILES."""
    file_id = request.url.path.split("/")[3]
    if request.url.path.endswith("/content"):
        return httpx.Response(200, stream=httpx.ByteStream(FILES[file_id]))
    size, content_type = len(FILES[file_id]), "application/octet-stream"
    file = FileData(
        id=file_id, size=size, sha256=None, content_type=content_type, created_at=BEGINNING, expires_at=None
    )
    return httpx.Response(200, content=msgspec.json.encode(file))


@pytest.fixture
def session() -> Iterator[Session]:
    with httpx.Client(transport=httpx.MockTransport(answer)) as http, Session(None, True) as session:
        session.__dict__["client"] = Charonia("http://gateway", "k", http=http)
        yield session


def make_result(*outputs: Output) -> Result:
    return Result(make_succeeded(outputs), outputs)


def in_file(name: str, file_id: str, response: int = -1, shape: Sequence[int] = (1,)) -> Output:
    size = len(FILES[file_id])
    return Output(name, "BYTES", list(shape), response=response, file=file_id, download_url="/v1", size=size)


def read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


AUDIO = (
    Output("audio", "BYTES", [1], [{"base64": "/wA="}], 2),
    Output("audio", "BYTES", [1], ["first"], 0),
    in_file("audio", "file_sound", 1),
)


def test_responses_are_described_in_order() -> None:
    result = make_result(*AUDIO)
    first, second, third = to_json(result)["outputs"]["audio"]
    assert first == {"datatype": "BYTES", "shape": [1], "data": ["first"]}
    assert (second["file"], "data" in second) == ("file_sound", False)
    assert third == {"datatype": "BYTES", "shape": [1], "data": [{"base64": "/wA="}]}
    assert shorten(result, "audio").plain.splitlines() == [
        "first",
        "file_sound (390.6 KiB)",
        "2 bytes; --output DIR saves them",
    ]


def test_responses_are_saved_in_order(session: Session, tmp_path: Path) -> None:
    numbers = (Output("y", "FP32", [2], [1.0, "NaN"], 0), Output("y", "FP32", [1], response=1, file="file_text"))
    save_outputs(session, make_result(*AUDIO, *numbers), tmp_path)
    found = read_folder(tmp_path)
    assert found.pop("y-0.bin")[:4] == struct.pack("<f", 1.0)
    assert found == {
        "audio-0.txt": b"first",
        "audio-1.bin": FILES["file_sound"],
        "audio-2.bin": b"\xff\x00",
        "y-1.bin": FILES["file_text"],
    }


@pytest.mark.parametrize("is_downloaded", [False, True])
def test_a_file_of_one_element_has_the_suffix_of_its_content(
    session: Session, tmp_path: Path, is_downloaded: bool
) -> None:
    outputs = [in_file("image", "file_png"), in_file("text", "file_text"), in_file("many", "file_text", shape=(2,))]
    if is_downloaded:
        outputs = [msgspec.structs.replace(each, content=FILES[each.file or ""]) for each in outputs]
    save_outputs(session, make_result(*outputs), tmp_path)
    assert read_folder(tmp_path) == {"image.png": PNG, "text.txt": TEXT.encode(), "many.bin": TEXT.encode()}
