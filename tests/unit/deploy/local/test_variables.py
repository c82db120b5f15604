"""A variable that make would ignore is refused, with the one that was meant."""

import os
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from common.settings import PREFIX
from deploy.docs.settings import OF_SERVICES
from deploy.local import variables
from deploy.local.settings import ROOT
from deploy.local.variables import ALWAYS, OWN, find_mistake, read_settings

SHELL = {"PATH": os.environ["PATH"]}  # the tests may run below another make


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
        (
            "CHARONIA_CORS_ORIGIN",
            "up",
            "`make up` takes no variable CHARONIA_CORS_ORIGIN; did you mean CHARONIA_CORS_ORIGINS? "
            "docs/reference/configuration.md has all settings",
        ),
        ("charonia_max_body", "up", "did you mean CHARONIA_MAX_BODY_BYTES?"),
        ("CHARONIA_FOO", "run", "CHARONIA_FOO; docs/reference/configuration.md has all settings"),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_one(given: str, target: str, text: str) -> None:
    assert text in find_mistake([given], [target])


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        (["TENANT", "SCOPES", "MODEL", "NAME", "PORT_BASE"], ["key"]),
        (["PORT_BASE", "MODELS", "LANGUAGE_MODELS", "WATCH", "CHARONIA_MAX_BODY_BYTES", "OTEL_SDK_DISABLED"], ["up"]),
        (["SERVICE", "CHARONIA_LEASE", "AWS_REGION"], ["run"]),
        (["CHARONIA_ENCRYPTION_KEYS"], ["key"]),
        (["CHARONIA_DATABASE_URL"], ["migrate"]),
        (["PYTHON", "PIP_INDEX_URL", "RUN", "STAMP"], []),
        (["ARGS"], ["check", "test"]),
    ],
)
def test_what_a_target_takes_is_no_mistake(given: list[str], targets: list[str]) -> None:
    assert find_mistake(given, targets) == ""


@pytest.mark.parametrize("target", ["restart", "key", "reload", "test", "bench", "check"])
@pytest.mark.parametrize("name", ["CHARONIA_CORS_ORIGINS", "OTEL_SDK_DISABLED"])
def test_a_target_that_starts_no_service_of_the_stack_takes_no_settings(target: str, name: str) -> None:
    serving = "`make up`, `make demo`, `make demo-llm`, `make run`"
    expected = f"takes no variable {name}; only {serving} take settings of the services"
    assert find_mistake([name], [target]) == f"`make {target}` {expected}"


def test_the_settings_are_those_of_the_services() -> None:
    names = {each.name for kind in OF_SERVICES.values() for each in msgspec.structs.fields(kind)}
    assert {*read_settings()} == {f"{PREFIX}{name.upper()}" for name in names}


def test_without_the_reference_every_setting_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "REFERENCE", "none.md")
    assert find_mistake(["CHARONIA_FOO"], ["up"]) == ""


def test_what_the_recipes_read_is_known() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target, recipe in re.findall(r"^([a-z-]+):[^\n=]*\n((?:\t.*\n)+)", makefile, re.MULTILINE):
        read = set(re.findall(r"\$\((?:if )?(ARGS|MODEL|NAME|SCOPES|SERVICE|TENANT)\b", recipe))
        assert read <= {*OWN.get(target, ()), *ALWAYS}, target


def run_make(*arguments: str) -> "subprocess.CompletedProcess[str]":
    argv = ["make", "-s", "-o", ".venv/.installed", *arguments]
    return subprocess.run(argv, cwd=ROOT, env=SHELL, capture_output=True, text=True, timeout=60, check=False)


def test_make_stops_before_it_does_anything() -> None:
    done = run_make("--dry-run", "key", "TENANT=acme", "SCOPE=read")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean SCOPES?" in done.stderr


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("key", ("NAME", "TENANT", "SCOPES", "MODEL")),
        ("reload", ("MODEL",)),
        ("restart", ("SERVICE",)),
        ("run", ("SERVICE",)),
    ],
)
def test_the_shell_leaves_values_as_they_are(target: str, names: tuple[str, ...], tmp_path: Path) -> None:
    words = ["it's", f"$(touch>{tmp_path}/file)", "&", '"', "ocr*"]
    value = " ".join(words).replace("$", "$$")  # which make reads as one
    shown = run_make(target, "RUN=printf '%s\\n'", *(f"{name}={value}" for name in names)).stdout.splitlines()
    texts = {"NAME": [f"--name={' '.join(words)}"], "TENANT": [" ".join(words)], "SCOPES": words}
    texts["MODEL"] = ["--model", *words] if target == "key" else [" ".join(words)]
    texts["SERVICE"] = [" ".join(words)]
    assert shown == ["-m", "deploy.local", target, *(text for name in names for text in texts[name])]
    assert not [*tmp_path.iterdir()]
