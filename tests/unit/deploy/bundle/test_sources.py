"""The sources that the bundle takes from the repository."""

from pathlib import Path

from deploy.bundle.__main__ import add_sources


def test_links_stay_and_lead_to_sources_that_are_there(tmp_path: Path) -> None:
    add_sources(tmp_path)
    links = [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert tmp_path / "deploy/models/ocr_stream/1/text_reader.py" in links
    assert [link for link in links if tmp_path not in link.resolve(strict=True).parents] == []
