"""What an argument such as `image=@scan.png` means."""

import os
from pathlib import Path
from typing import Any

import pytest
from charonia.cli.arguments import InvalidArgument, read_value
from charonia.references import FileId, Url

FILE = "file_01m0p2tmt8fa7bvqpx6v5ebrxj"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory has the files `scan.png` and `1`."""
    for name in ("scan.png", "1"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "datatype", "expected"),
    [
        ("hello", "BYTES", "hello"),
        ("@scan.png", "BYTES", Path("scan.png")),
        ("1", "FP32", 1),  # a number is no name
        (FILE, "BYTES", FileId(FILE)),
        (FILE, "FP32", FileId(FILE)),
        ("https://example.com/a.png?b=c", "BYTES", Url("https://example.com/a.png?b=c")),
        ("s3://bucket/a.png", "BYTES", Url("s3://bucket/a.png")),
        ("see https://example.com", "BYTES", "see https://example.com"),
        ("https://example.com is a site", "BYTES", "https://example.com is a site"),
        (f"{FILE}.png", "BYTES", f"{FILE}.png"),
    ],
)
def test_a_value_is_text_a_number_or_what_it_names(text: str, datatype: str, expected: Any) -> None:
    found = read_value("x", text, datatype)
    assert (found, type(found)) == (expected, type(expected))


def test_a_pipe_is_read() -> None:
    output, source = os.pipe()
    os.write(source, b"content")
    os.close(source)
    assert read_value("x", f"@/dev/fd/{output}", "BYTES") == b"content"
    os.close(output)


@pytest.mark.parametrize(("name", "text"), [(".", "is a folder"), ("missing", "there is no file 'missing'")])
def test_what_is_no_file_is_named(name: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        read_value("x", f"@{name}", "BYTES")


@pytest.mark.parametrize("text", ["scan.png", FILE, "https://example.com"])
def test_json_is_the_text_itself(text: str) -> None:
    found = read_value("x", f'"{text}"', None, is_json=True)
    assert (found, type(found)) == (text, str)


@pytest.mark.parametrize(("text", "datatype"), [("scan.png", "BYTES"), ("scan.png", "FP32"), ("scan.png", None)])
def test_the_name_of_a_file_is_refused(text: str, datatype: str | None) -> None:
    with pytest.raises(InvalidArgument, match=r"write x=@scan\.png for its content, or x:='\"scan\.png\"' for"):
        read_value("x", text, datatype)
