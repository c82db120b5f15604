"""The OpenAPI document by resource, which is a tag: its calls, the owner of each object and the errors of all calls."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from deploy.local.settings import ROOT
from services.gateway.openapi.references import Json, find_names

COMMAND = (sys.executable, "-m", "services.gateway.commands.openapi")
SHARED = ""  # the owner of the objects that errors of several resources have


def read_document() -> Json:
    done = subprocess.run(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    document: Json = json.loads(done.stdout)
    return document


class Call(NamedTuple):
    method: str
    path: str
    operation: Json

    @property
    def needs_key(self) -> bool:
        return any("key" in each for each in self.operation["security"])

    @property
    def names_object(self) -> bool:
        """Return whether the path names something that must exist."""
        return "{" in self.path and self.operation["operationId"] not in NAME_NEW

    def is_under(self, folder: str) -> bool:
        return self.path.startswith(f"{folder}/")

    def list_errors(self) -> dict[str, str]:
        """Return what each status of an error means."""
        responses = self.operation["responses"].items()
        return {status: answer["description"] for status, answer in sorted(responses) if status >= "400"}


NAME_NEW = ("put_pipeline", "check_pipeline")  # what these calls name need not exist
# Calls whose errors are described once.
GROUPS: dict[str, Callable[[Call], bool]] = {
    "all that need a key": lambda call: call.needs_key,
    "all under `/v1`": lambda call: call.is_under("/v1"),
    "those under `/v1` with an id or a name in the path": lambda call: call.is_under("/v1") and call.names_object,
    "those under `/v1` with a body": lambda call: call.is_under("/v1") and "requestBody" in call.operation,
    "those under `/openai/v1`": lambda call: call.is_under("/openai/v1"),
    "those under `/openai/v1` with a body": lambda call: (
        call.is_under("/openai/v1") and "requestBody" in call.operation
    ),
    "those under `/v2` that need a key": lambda call: call.is_under("/v2") and call.needs_key,
}


@dataclass(frozen=True)
class Reference:
    """What the document says, in the order in which the pages show it."""

    document: Json

    @cached_property
    def schemas(self) -> Json:
        schemas: Json = self.document["components"]["schemas"]
        return schemas

    @cached_property
    def resources(self) -> dict[str, str]:
        """The descriptions of resources."""
        return {tag["name"]: tag["description"] for tag in self.document["tags"]}

    @cached_property
    def calls(self) -> list[Call]:
        paths = self.document["paths"].items()
        return [Call(method.upper(), path, each) for path, calls in paths for method, each in calls.items()]

    @cached_property
    def sent(self) -> set[str]:
        """The names of the schemas that clients send."""
        return find_names([each.operation.get("requestBody") for each in self.calls], self.schemas)

    def group_calls(self, tag: str) -> list[list[Call]]:
        """Return the calls of a resource. The same call on several paths is one item, its shortest path first."""
        by_summary: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.operation["tags"][0] == tag:
                by_summary[call.operation["summary"]].append(call)
        return [sorted(each, key=lambda call: len(call.path)) for each in by_summary.values()]

    @cached_property
    def owners(self) -> dict[str, str]:
        """The resource of each schema: the first that uses it."""
        owners = dict.fromkeys(self._find_shared(), SHARED)
        for tag in self.resources:
            for name in find_names(self._list_operations(tag), self.schemas):
                owners.setdefault(name, tag)
        return owners

    @cached_property
    def common_errors(self) -> dict[str, dict[str, str]]:
        """The errors that every call of a group has, with the same meaning. A wider group before it has the rest."""
        common: dict[str, dict[str, str]] = {}
        for name, holds in GROUPS.items():
            calls = [call for call in self.calls if holds(call)]
            wider = [errors.items() for other, errors in common.items() if all(map(GROUPS[other], calls))]
            shared = set.intersection(*(set(call.list_errors().items()) for call in calls))
            common[name] = dict(sorted(shared.difference(*wider)))
        return common

    def list_own_errors(self, call: Call) -> list[str]:
        """Return the statuses that a call does not have in common with others."""
        groups = [errors for name, errors in self.common_errors.items() if GROUPS[name](call)]
        common = {error for errors in groups for error in errors.items()}
        return [status for status, meaning in call.list_errors().items() if (status, meaning) not in common]

    def _list_operations(self, tag: str) -> list[Json]:
        webhooks = [each["post"] for each in self.document["webhooks"].values()]
        operations = [*(call.operation for call in self.calls), *webhooks]
        return [each for each in operations if each["tags"][0] == tag]

    def _find_shared(self) -> set[str]:
        """Return the schemas in the errors of more than one resource."""
        seen: set[str] = set()
        shared: set[str] = set()
        for tag in self.resources:
            answers = [each["responses"].items() for each in self._list_operations(tag)]
            errors = [answer for each in answers for status, answer in each if status >= "400"]
            names = find_names(errors, self.schemas)
            shared |= seen & names
            seen |= names
        return shared
