"""The object stores that tests of inputs run with."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3.server import S3


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder, unless a test asks for S3."""
    if getattr(request, "param", "folder") == "folder":
        yield (tmp_path / "store").as_uri()
        return
    s3: S3 = request.getfixturevalue("s3")
    name = f"large-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(name)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    yield f"s3://{name}"
    s3.thaw()
