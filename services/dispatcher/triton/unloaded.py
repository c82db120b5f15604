"""Which models Triton has in its repository and does not serve, and why. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from services.dispatcher.triton.errors import clean_message

MAX_UNLOADED = 200  # a repository may have thousands that nobody loads
MAX_REASON = 500
UNLOADED = "unloaded"  # Triton's reason after an unload
LOADING = "Triton is loading it"
NOT_LOADED = (
    "Triton has not loaded it: nobody asked it to, or its config.pbtxt is missing or wrong. Triton's log says which"
)
NOT_LEARNED = "its inputs and outputs are not known yet: Triton loads it once to learn them. Try again later"
FOLDERS = re.compile(r"(?<![\w./:])/(?:[^\s/'\"]+/)+")

STALLED = "its process crashed or stalled: it waits until Triton has loaded it again"
WITHOUT_ERROR = (LOADING, NOT_LOADED, NOT_LEARNED, STALLED)

Repository: TypeAlias = dict[str, set[str]]  # the versions of each model, as far as Triton knows them
Unloaded: TypeAlias = dict[tuple[str, str], str]  # the reason by name and version; the version may be empty


def find_unloaded(index: Iterable[Any]) -> Unloaded:
    """Return why each model of a repository's index does not run. Models that Triton failed to load come first.

    Hidden folders that Triton did not load, such as `.git`, are no models.
    """
    found = {
        (model.name, model.version): (model.state, model.reason)
        for model in index
        if model.state or not model.name.startswith(".")
    }
    reasons = {key: reason for key, (state, text) in found.items() if (reason := explain_state(state, text))}
    urgent = sorted(reasons, key=lambda key: (reasons[key] in WITHOUT_ERROR, key))
    return {key: reasons[key] for key in urgent[:MAX_UNLOADED]}


def list_repository(index: Iterable[Any]) -> Repository:
    """Return all models of a repository's index, loaded or not. Triton does not know the versions of some."""
    found: Repository = defaultdict(set)
    for model in index:
        if model.state or not model.name.startswith("."):
            found[model.name].update({model.version} - {""})
    return dict(found)


def explain_state(state: str, reason: str) -> str | None:
    """Return why a model in this state does not run, or None if it runs or was unloaded on purpose."""
    match state:
        case "":
            return NOT_LOADED
        case "LOADING":
            return LOADING
        case "UNAVAILABLE" if reason and reason != UNLOADED:
            return f"Triton could not load it: {hide_folders(clean_message(reason))}"[:MAX_REASON]
        case _:
            return None


def explain_absent(unloaded: Unloaded, known: Collection[str]) -> Unloaded:
    """Return the reasons where Triton loads what jobs wait for: that a known model is absent or loading needs none."""
    found = {}
    for (name, version), reason in unloaded.items():
        if reason not in (NOT_LOADED, LOADING):
            found[name, version] = reason
        elif name not in known:
            found[name, version] = NOT_LEARNED
    return found


def hide_folders(text: str) -> str:
    """Shorten each absolute path to its last part: clients see the text."""
    return FOLDERS.sub("…/", text)
