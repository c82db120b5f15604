"""Each test runs on a local folder and on S3 over HTTP with signatures."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from common.object_store.store import ObjectStore
from tests.support.s3.server import S3


@dataclass(frozen=True)
class Place:
    """Where objects are. `list_everything` also has what only an operator sees, such as parts of broken uploads."""

    url: str
    list_everything: Callable[[], list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    root = tmp_path / "store"
    return Place(root.as_uri(), lambda: sorted(str(path.relative_to(root)) for path in root.rglob("*")))


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Place:
    name = f"test-{uuid4().hex}"
    s3.create_bucket(name)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    return Place(f"s3://{name}/some/prefix", lambda: s3.list_keys(name) + s3.list_uploads(name))


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def store(place: Place) -> AsyncIterator[ObjectStore]:
    opened = ObjectStore(place.url, deadline=10.0)
    yield opened
    opened.close()
