"""Why a model of Triton's repository does not run, from the states of its index."""

from types import SimpleNamespace

import pytest

from services.dispatcher.triton.unloaded import (
    LOADING,
    MAX_UNLOADED,
    NOT_LEARNED,
    NOT_LOADED,
    explain_absent,
    explain_state,
    find_unloaded,
    list_repository,
)

IMPORT_ERROR = (
    "Internal: ModuleNotFoundError: No module named 'torch'\n\nAt:\n  /srv/models/big/1/model.py(1): <module>\n"
)
NO_FILE = "Internal: Python model file not found in '/srv/models/empty/1/model.py'"


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("READY", "", None),
        ("UNLOADING", "", None),
        ("UNAVAILABLE", "unloaded", None),
        ("LOADING", "", LOADING),
        ("", "", NOT_LOADED),
        (
            "UNAVAILABLE",
            IMPORT_ERROR,
            "Triton could not load it: Internal: ModuleNotFoundError: No module named 'torch' "
            "(model.py, line 1, in <module>)",
        ),
        ("UNAVAILABLE", NO_FILE, "Triton could not load it: Internal: Python model file not found in '…/model.py'"),
        (
            "UNAVAILABLE",
            "see https://example.com/a/b and /a b",
            "Triton could not load it: see https://example.com/a/b and /a b",
        ),
    ],
)
def test_a_state_has_a_reason_without_folders_of_the_server(state: str, reason: str, expected: str | None) -> None:
    assert explain_state(state, reason) == expected


def test_a_hidden_folder_is_no_model_until_triton_tries_to_load_it() -> None:
    index = [SimpleNamespace(name=".git", version="", state="", reason="")]
    assert find_unloaded(index) == {}
    index[0].state = "LOADING"
    assert find_unloaded(index) == {(".git", ""): LOADING}


def test_a_huge_repository_is_cut_and_failed_loads_come_first() -> None:
    index = [SimpleNamespace(name=f"model-{number:04}", version="", state="", reason="") for number in range(1000)]
    index.append(SimpleNamespace(name="z", version="1", state="UNAVAILABLE", reason="Internal: broken"))
    found = find_unloaded(index)
    assert len(found) == MAX_UNLOADED
    assert next(iter(found)) == ("z", "1")


def test_the_repository_has_all_models_with_the_versions_that_are_known() -> None:
    entries = [
        ("new", "", ""),
        ("loaded", "1", "READY"),
        ("loaded", "2", "UNAVAILABLE"),
        (".git", "", ""),
        (".hidden", "1", "READY"),
    ]
    index = [SimpleNamespace(name=name, version=version, state=state) for name, version, state in entries]
    assert list_repository(index) == {"new": set(), "loaded": {"1", "2"}, ".hidden": {"1"}}


def test_only_errors_and_models_to_learn_have_a_reason_where_jobs_load_models() -> None:
    found = {
        ("known", "1"): NOT_LOADED,
        ("coming", "1"): LOADING,
        ("broken", "1"): "Triton could not load it: no torch",
        ("new", ""): NOT_LOADED,
        ("learned", ""): LOADING,
    }
    assert explain_absent(found, ["known", "coming", "broken"]) == {
        ("broken", "1"): "Triton could not load it: no torch",
        ("new", ""): NOT_LEARNED,
        ("learned", ""): NOT_LEARNED,
    }
