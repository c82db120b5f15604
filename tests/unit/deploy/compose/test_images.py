"""The images have the labels of the commit, and nothing in them depends on the time of the build."""

import re

import pytest

from common import VERSION
from deploy.compose import images
from deploy.compose.images import DOCKERFILE, SERVICES, build_command
from deploy.compose.rehearsal.reproducible import SOURCES
from deploy.local.settings import ROOT

TEXT = DOCKERFILE.read_text()


def test_the_labels_say_what_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"describe": f"{'a' * 40}-dirty\n", "log": "1760000000\n"}
    monkeypatch.setattr(images, "run", lambda argv, timeout: answers[argv[len(images.GIT)]])
    labels = images.read_labels()
    assert labels == {
        "VERSION": VERSION,
        "REVISION": f"{'a' * 40}-dirty",
        "CREATED": "2025-10-09T08:53:20Z",
        "SOURCE_DATE_EPOCH": "1760000000",
    }
    declared = {*re.findall(r"^ARG ([A-Z_]+)", TEXT, re.MULTILINE)}
    assert labels.keys() | {"SERVICE", "BASE"} == declared


def test_each_label_is_set() -> None:
    labels = set(re.findall(r"org\.opencontainers\.image\.([a-z]+)=", TEXT))
    assert labels == {"title", "description", "version", "revision", "created"}


def test_a_build_names_the_service_and_the_image() -> None:
    command = build_command("notifier", "registry.example.com/charonia/notifier:1", {"VERSION": "1"})
    assert command[:3] == ["build", "-f", str(DOCKERFILE)]
    assert command[3:] == [
        "--build-arg",
        "SERVICE=notifier",
        "--build-arg",
        "VERSION=1",
        "-t",
        "registry.example.com/charonia/notifier:1",
        str(ROOT),
    ]
    assert all((ROOT / "services" / service).is_dir() for service in SERVICES)


def test_bytecode_has_no_times_and_the_last_stage_runs_no_apt() -> None:
    build, final = re.split(r"^FROM .*$", TEXT, flags=re.MULTILINE)[1:]
    assert "--no-compile" in build
    assert "--invalidation-mode unchecked-hash" in build
    assert "RUN" not in final


def test_build_contexts_have_all_that_is_copied() -> None:
    """`make compose-test` builds an image from a copy, too."""
    copied = re.findall(r"^COPY (?!--from)(\S+)", TEXT, re.MULTILINE)
    shown = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for folders in (shown, SOURCES):
        assert [path for path in copied if not path.startswith(tuple(folders))] == []
