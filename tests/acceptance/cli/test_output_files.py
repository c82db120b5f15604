"""Large outputs on the command line."""

from pathlib import Path

import numpy as np

from tests.support.command_line import CommandLine

WORD = "x" * 300_000


def test_a_large_output_is_shown_as_its_file_and_saved(charonia: CommandLine, tmp_path: Path) -> None:
    np.arange(100_000, dtype="<f4").tofile(tmp_path / "x.bin")
    (file,) = charonia.read("files", "upload", "x.bin")
    (done,) = charonia.read("run", "echo", f'x:={{"file": "{file["id"]}"}}', "--output", "out")
    output = done["outputs"]["y"]
    assert (output["size"], output["shape"]) == (400_000, [1, 100_000])
    assert np.fromfile(tmp_path / "out" / "y.bin", "<f4")[-1] == 2 * 99_999
    assert f"{output['file']} (390.6 KiB)" in charonia.tell("job", done["id"])
    assert [each["id"] for each in charonia.read("files")] == [file["id"]]


def test_a_large_text_is_printed_if_it_is_asked_for(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "word.txt").write_text(WORD)
    done = charonia.run("run", "tokens", "text=@word.txt", "--text")
    assert (done.returncode, done.stdout.strip()) == (0, WORD)


def test_responses_of_a_stream_are_shown_and_saved_wherever_they_are(charonia: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(f"a {WORD} b")
    (done,) = charonia.read("run", "tokens", "text=@text.txt", "--output", "out")
    first, second, third = done["outputs"]["token"]
    assert (first["data"], second["size"], third["data"]) == (["a"], len(WORD) + 1, [" b"])
    saved = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert saved == {"token-0.txt": "a", "token-1.txt": f" {WORD}", "token-2.txt": " b"}
    assert charonia.tell("job", done["id"]).count("\ntoken") == 1
    for command in (["run", "tokens", "text=@text.txt"], ["watch", done["id"]]):
        text = charonia.run(*command, "--text")
        assert (text.returncode, text.stdout) == (0, f"a {WORD} b\n")
