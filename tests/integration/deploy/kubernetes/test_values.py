"""Each value of the chart is described, checked and used."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from common import VERSION
from deploy.docs.chart import SCHEMA, VALUES, list_settings, list_values, renew_schema
from deploy.docs.openapi import read_document
from services.dispatcher.settings import DispatcherSettings
from services.gateway.http.welcome import WELCOME
from tests.support.cluster.helm import CHART, merge, refuse, render_cases, run_helm
from tests.support.cluster.helm import VALUES as FILES

DESCRIBED = json.loads(SCHEMA.read_text())
DEFAULTS = yaml.safe_load(VALUES.read_text())
EVERYTHING = yaml.safe_load((FILES / "everything.yaml").read_text())
COMMENT_OR_KEY = re.compile(r"^( *)(?:# (.*)|([A-Za-z0-9]+):.*)$")
FIXED = {"gateway": {"autoscaling": {"enabled": False}}}  # the only way to use gateway.replicas
USE = re.compile(r"\.Values((?:\.[a-zA-Z][A-Za-z0-9]*)+)")


def look_up(path: str) -> Mapping[str, Any]:
    """Return the schema of a value."""
    found: Mapping[str, Any] = DESCRIBED
    for name in path.split("."):
        found = found["properties"][name]
    return found


def read(values: Any, path: str) -> Any:
    """Return a value, or None if it is not set."""
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


PATHS = {path: text for path, _, text in list_values(DESCRIBED, DEFAULTS)}
LEAVES = [path for path in PATHS if "properties" not in look_up(path)]


def change(path: str) -> Any:
    """Return another value than the one in everything.yaml, or than the default."""
    schema = look_up(path)
    value = read(EVERYTHING, path)
    value = read(DEFAULTS, path) if value is None else value
    match schema:
        case {"examples": [example, *_]}:
            assert example != value, path
            return example
        case {"enum": names}:
            return next(name for name in names if name != value)
        case {"type": "boolean"}:
            return not value
        case {"type": "integer"}:
            return value + 1
        case _:
            return f"{value}x"


def nest(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    found: dict[str, Any] = value
    return found


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return what is rendered for each value without its change, and with it."""
    unchanged = [FIXED if path == "gateway.replicas" else {} for path in LEAVES]
    changed = [merge(before, nest(path, change(path))) for path, before in zip(LEAVES, unchanged, strict=True)]
    texts = render_cases(tmp_path_factory.mktemp("chart"), "everything", [{}, {}, FIXED, *changed])
    assert texts[0] == texts[1] != texts[2]
    before = [texts[2] if each is FIXED else texts[0] for each in unchanged]
    return dict(zip(LEAVES, zip(before, texts[3:], strict=True), strict=True))


@pytest.mark.parametrize("path", LEAVES)
def test_a_value_is_used(path: str, rendered: dict[str, tuple[str, str]]) -> None:
    before, after = rendered[path]
    assert after != before


def test_templates_use_no_value_that_is_not_described() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = {each.lstrip(".") for each in USE.findall(text)}
    assert used
    assert {path for path in used if path not in PATHS} == set()


def list_comments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each value in values.yaml, and the comment above it."""
    place: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if not (found := COMMENT_OR_KEY.match(line)):
            comment = []
            continue
        indent, words, name = len(found[1]), found[2], found[3]
        if words is not None:
            comment.append(words)
            continue
        place = [each for each in place if each[0] < indent]
        place.append((indent, name))
        yield ".".join(each for _, each in place), " ".join(comment)
        comment = []


def test_the_comment_of_a_value_is_its_description() -> None:
    comments = {path: comment for path, comment in list_comments(VALUES.read_text()) if path in PATHS}
    assert comments == PATHS


def test_every_object_of_the_schema_refuses_other_values() -> None:
    def walk(schema: Mapping[str, Any], place: str) -> Iterator[str]:
        if "properties" in schema and schema.get("additionalProperties") is not False:
            yield place
        for name, each in schema.items():
            if isinstance(each, dict):
                yield from walk(each, f"{place}/{name}")

    assert list(walk(DESCRIBED, "")) == []


def test_the_schema_has_exactly_the_values_of_the_file() -> None:
    def walk(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        for name, each in schema.get("properties", {}).items():
            yield f"{prefix}{name}"
            yield from walk(each, f"{prefix}{name}.")

    assert set(walk(DESCRIBED)) == PATHS.keys() | {"global"}  # which Helm adds
    assert all(look_up(path)["description"].endswith((".", ":")) for path in PATHS)


def test_the_schema_has_the_settings_of_the_services() -> None:
    assert renew_schema(SCHEMA.read_text()) == SCHEMA.read_text(), "run `make docs`"
    assert {"CHARONIA_LEASE", "CHARONIA_SLOTS"} <= list_settings(DispatcherSettings)
    assert not {"CHARONIA_DATABASE_URL", "CHARONIA_URL_KEYS", "CHARONIA_DEVELOPMENT"} & list_settings(
        DispatcherSettings
    )


def test_the_chart_has_the_version_of_the_services() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == VERSION


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "misspelled": ({"gatway": {}}, "additional properties 'gatway' not allowed"),
    "misspelled below": ({"gateway": {"replica": 3}}, "at '/gateway': additional properties 'replica' not allowed"),
    "type": ({"gateway": {"replicas": "three"}}, "at '/gateway/replicas': got string, want integer"),
    "range": ({"notifier": {"replicas": -1}}, "at '/notifier/replicas': minimum: got -1, want 0"),
    "choice": ({"gateway": {"service": {"type": "Public"}}}, "value must be one of 'ClusterIP', 'LoadBalancer'"),
    "unknown setting": ({"settings": {"CHARONIA_SLOT": 1}}, "invalid propertyName 'CHARONIA_SLOT'"),
    "setting of another service": (
        {"notifier": {"settings": {"CHARONIA_SLOTS": 1}}},
        "invalid propertyName 'CHARONIA_SLOTS'",
    ),
    "different leases": (
        {"poolDefaults": {"settings": {"CHARONIA_LEASE": 60}}},
        "invalid propertyName 'CHARONIA_LEASE'",
    ),
    "secret in the settings": (
        {"settings": {"CHARONIA_URL_KEYS": "x"}},
        "invalid propertyName 'CHARONIA_URL_KEYS'",
    ),
    "secret in the environment": (
        {"environment": {"AWS_SECRET_ACCESS_KEY": "x"}},
        "invalid propertyName 'AWS_SECRET_ACCESS_KEY'",
    ),
    "metrics for everybody": (
        {"gateway": {"ingress": {"paths": ["/metrics"]}}},
        "at '/gateway/ingress/paths/0': 'not' failed",
    ),
    "pool without a name": ({"pools": [{"replicas": 1}]}, "at '/pools/0': missing property 'name'"),
    "pool with a wrong value": ({"pools": [{"name": "a", "triton": {"gpu": 1}}]}, "properties 'gpu' not allowed"),
    "no images": ({"image": {"repository": ""}}, "image.repository is empty: set it to the registry and the folder"),
    "pool without models": ({"pools": [{"name": "a"}]}, "pools: a has no triton.modelVolume"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_name(case: str) -> None:
    more, message = WRONG[case]
    assert message in refuse("minimal", more)


def test_the_addresses_that_only_you_know_are_required() -> None:
    done = run_helm("template", "charonia", str(CHART))
    assert "at '/settings': missing properties 'CHARONIA_STORE_URL', 'CHARONIA_PUBLIC_URL'" in done.stderr


def test_the_ingress_has_the_paths_of_the_api_and_its_documentation_and_of_the_console() -> None:
    operations = {"/", "/metrics", WELCOME.health, "/healthz"}
    paths = {re.split(r"(?<=.)/", path)[0] for path in read_document()["paths"] if path not in operations}
    expected = paths | {WELCOME.docs, WELCOME.openapi, WELCOME.console}
    assert set(DEFAULTS["gateway"]["ingress"]["paths"]) == expected
