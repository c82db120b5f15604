"""Which files the bundle has, and in which archive each of them is."""

import pytest

from deploy.bundle.parts import ARCHIVES, assign, check_sizes, is_kept
from deploy.local.errors import LocalError

SITE = "triton/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    "path",
    [
        "usr/bin/python3.11",
        "usr/lib/python3.11/ssl.py",
        "usr/lib/postgresql/15/bin/initdb",
        "usr/lib/x86_64-linux-gnu/libssl.so.3",
        "usr/lib/x86_64-linux-gnu/libexpat.so.1",
    ],
)
def test_is_kept(path: str) -> None:
    assert is_kept(path)


@pytest.mark.parametrize(
    "path",
    [
        "etc/init.d/rabbitmq-server",
        "usr/bin/perl",
        "usr/lib/postgresql/15/lib/llvmjit.so",
        "usr/lib/python3.11/test/test_ssl.py",
        "usr/lib/x86_64-linux-gnu/engines-3/padlock.so",
        "usr/share/doc/libssl3/changelog.Debian.gz",
    ],
)
def test_is_left_out(path: str) -> None:
    assert not is_kept(path)


@pytest.mark.parametrize(
    ("path", "archive"),
    [
        ("usr/lib/postgresql/15/bin/postgres", "postgresql"),
        ("usr/lib/erlang/bin/erl", "rabbitmq"),
        ("usr/lib/x86_64-linux-gnu/libicudata.so.72.1", "python"),
        ("app/services/gateway/app/application.py", "services"),
        ("services/lib/python3.11/site-packages/numpy/version.py", "services"),
        (f"{SITE}/pytriton/tritonserver/bin/tritonserver", "triton"),
        (f"{SITE}/numpy.libs/libgfortran.so.5", "triton"),
        (f"{SITE}/cv2/__init__.py", "models-opencv"),
        (f"{SITE}/onnxruntime/__init__.py", "models"),
    ],
)
def test_each_file_is_in_one_archive(path: str, archive: str) -> None:
    assert {name: paths for name, paths in assign([path]).items() if paths} == {archive: [path]}


def test_files_of_a_kind_are_side_by_side_in_the_same_order_always() -> None:
    paths = ["app/b.py", "app/a.sql", "app/a.py", "app/b.sql"]
    wanted = ["app/a.py", "app/b.py", "app/a.sql", "app/b.sql"]
    assert assign(paths)["services"] == assign(reversed(paths))["services"] == wanted


def test_a_file_without_an_archive_is_named() -> None:
    with pytest.raises(LocalError, match="opt/new is in no archive"):
        assign(["opt/new"])


def test_archives_have_different_names() -> None:
    assert len({archive.name for archive in ARCHIVES}) == len(ARCHIVES)


def test_a_large_archive_is_named() -> None:
    check_sizes({"a": 10, "b": 10}, limit=10)
    with pytest.raises(LocalError, match=r"^b has 11 bytes, but 10 are allowed"):
        check_sizes({"a": 10, "b": 11}, limit=10)
