"""Who finds a file by its id."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import cast
from uuid import UUID

import pytest

from common import ids
from common.object_store.store import ObjectStore
from services.gateway.files.presigned import PresignedUploads
from services.gateway.files.store import FileRow, FileStore
from services.gateway.http.problems import Problem

NOW = datetime.now(UTC)
FILE = FileRow(ids.new(), ids.new(), "ready", 7, b"", "image/png", NOW, NOW, None)


class FakeStore:
    """Has one file."""

    async def find(self, file_id: UUID) -> FileRow | None:
        return FILE if file_id == FILE.id else None


@pytest.fixture
def uploads() -> PresignedUploads:
    return PresignedUploads(cast("FileStore", FakeStore()), cast("ObjectStore", None), 100)


@pytest.mark.parametrize("tenant", [FILE.tenant_id, None], ids=["its tenant", "a signed URL"])
async def test_a_file_is_found(uploads: PresignedUploads, tenant: UUID | None) -> None:
    assert await uploads.find(FILE.id, tenant) == FILE


@pytest.mark.parametrize(
    ("file", "tenant"), [(FILE.id, ids.new()), (ids.new(), FILE.tenant_id)], ids=["of another tenant", "unknown"]
)
async def test_no_other_file_is_found(uploads: PresignedUploads, file: UUID, tenant: UUID) -> None:
    with pytest.raises(Problem) as refused:
        await uploads.find(file, tenant)
    assert refused.value.status == HTTPStatus.NOT_FOUND
