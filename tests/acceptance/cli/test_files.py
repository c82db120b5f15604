"""Files on the command line."""

import os
from pathlib import Path

from deploy.local.settings import ROOT
from tests.support.api.model_inputs import LINES
from tests.support.command_line import CommandLine

IMAGE = ROOT / "deploy" / "local" / "demo.png"
LARGE = IMAGE.read_bytes() + bytes(2_000_000)  # what follows the end of an image is ignored


def test_a_file_is_uploaded_used_listed_downloaded_and_deleted(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "scan.png").write_bytes(LARGE)
    (file,) = charonia.read("files", "upload", "scan.png", "--expires-in", "600")
    assert (file["size"], file["content_type"]) == (len(LARGE), "image/png")
    assert [each["id"] for each in charonia.read("files")] == [file["id"]]
    told = charonia.tell("files", "list")
    assert "2.0 MB" in told
    assert charonia.read("files", "show", file["id"]) == [file]
    assert file["sha256"] in charonia.tell("files", "show", file["id"])
    (done,) = charonia.read("run", "ocr", f"image={file['id']}")
    assert done["outputs"]["text"] == LINES
    assert charonia.read("files", "download", file["id"], "-o", "copy.png")[0]["path"] == "copy.png"
    assert (tmp_path / "copy.png").read_bytes() == LARGE
    refused = charonia.run("files", "delete", file["id"])
    assert (refused.returncode, "add --yes" in refused.stderr) == (2, True)
    assert charonia.read("files", "delete", file["id"], "--yes") == [{"id": file["id"], "deleted": True}]
    assert "no files" in charonia.tell("files")
    assert charonia.run("files", "download", file["id"]).returncode == 4


def test_the_name_of_a_file_without_its_sign_is_refused_before_the_job(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "scan.png").write_bytes(LARGE)
    refused = charonia.run("run", "ocr", "image=scan.png")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "write image=@scan.png for its content, or image:='\"scan.png\"' for this text" in refused.stderr
    assert charonia.run("jobs").stdout == ""


def test_a_large_input_goes_as_a_file(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "scan.png").write_bytes(LARGE)
    (done,) = charonia.read("run", "ocr", "image=@scan.png")
    assert done["outputs"]["text"] == LINES
    assert len(charonia.read("files")) == 1


def test_a_transfer_is_shown_on_a_terminal(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "large.bin").write_bytes(os.urandom(20_000_000))
    with charonia.on_terminal("files", "upload", "large.bin") as terminal:
        assert terminal.wait() == 0
        assert "large.bin" in terminal.text
        assert "file_" in terminal.text


def test_mistakes_are_named(charonia: CommandLine) -> None:
    for arguments, text in (
        (("upload", "missing"), "'missing'"),
        (("download", "file_x", "-o", "no/where"), "no folder 'no'"),
    ):
        found = charonia.run("files", *arguments)
        assert (found.returncode, text in found.stderr) == (2, True), found.stderr
