"""What a service asks of the system as it starts."""

import resource
from collections.abc import Iterator

import pytest

from common import lifecycle


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_service_may_open_as_many_files_as_the_system_allows(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hard = limits[1]
    monkeypatch.setattr(lifecycle, "OPEN_FILES", 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    lifecycle.allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, hard)


def test_a_service_is_content_with_what_it_may_have(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "OPEN_FILES", 128)
    lifecycle.allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
