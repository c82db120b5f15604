"""A variable that make would ignore is refused, with the one that was meant."""

import os
import re
import subprocess

import pytest

from deploy.local.settings import ROOT
from deploy.local.variables import ALWAYS, OWN, find_mistake


@pytest.mark.parametrize(
    ("given", "target", "text"),
    [
        (
            "SCOPE",
            "key",
            "`make key` takes no variable SCOPE; did you mean SCOPES? it takes TENANT, SCOPES, MODEL, NAME",
        ),
        ("MODELS", "key", "did you mean MODEL?"),
        ("tenant", "key", "did you mean TENANT?"),
        ("MODEL", "up", "did you mean MODELS?"),
        ("GATEWAY", "up", "did you mean GATEWAYS?"),
        ("ARGS", "check", "`make check` takes no variable ARGS; it takes PYTHON"),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_one(given: str, target: str, text: str) -> None:
    assert text in find_mistake([given], [target])


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        (["TENANT", "SCOPES", "MODEL", "NAME", "PORT_BASE"], ["key"]),
        (["PORT_BASE", "MODELS", "WATCH", "CHARONIA_MAX_BODY", "OTEL_SDK_DISABLED"], ["up"]),
        (["PYTHON", "PIP_INDEX_URL", "RUN", "STAMP"], []),
        (["ARGS"], ["check", "test"]),
    ],
)
def test_what_a_target_takes_is_no_mistake(given: list[str], targets: list[str]) -> None:
    assert find_mistake(given, targets) == ""


def test_what_the_recipes_read_is_known() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target, recipe in re.findall(r"^([a-z-]+):[^\n=]*\n((?:\t.*\n)+)", makefile, re.MULTILINE):
        read = set(re.findall(r"\$\((?:if )?(ARGS|MODEL|NAME|SCOPES|SERVICE|TENANT)\b", recipe))
        assert read <= {*OWN.get(target, ()), *ALWAYS}, target


def test_make_stops_before_it_does_anything() -> None:
    argv = ["make", "--dry-run", "key", "TENANT=acme", "SCOPE=read"]
    shell = {"PATH": os.environ["PATH"]}  # the tests may run below another make
    done = subprocess.run(argv, cwd=ROOT, env=shell, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean SCOPES?" in done.stderr
