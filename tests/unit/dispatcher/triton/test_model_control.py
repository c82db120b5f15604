"""The states of models in Triton's index."""

from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton.model_control import ModelState, State, read_states


def test_the_highest_state_of_the_versions_counts() -> None:
    index = [
        pb.RepositoryIndexResponse.ModelIndex(name=name, version=version, state=state, reason=reason)
        for name, version, state, reason in (
            ("new", "", "", ""),
            (".git", "", "", ""),
            ("ready", "1", "UNAVAILABLE", "unloaded"),
            ("ready", "2", "READY", ""),
            ("loading", "1", "LOADING", ""),
            ("leaving", "1", "UNLOADING", ""),
            ("gone", "1", "UNAVAILABLE", "unloaded"),
            ("broken", "1", "UNAVAILABLE", "unloaded"),
            ("broken", "2", "UNAVAILABLE", "Internal: /models/broken/2/model.py: torn"),
        )
    ]
    assert read_states(index) == {
        "new": ModelState(State.ABSENT, is_untouched=True),
        "ready": ModelState(State.READY),
        "loading": ModelState(State.LOADING),
        "leaving": ModelState(State.UNLOADING),
        "gone": ModelState(State.ABSENT),
        "broken": ModelState(State.ABSENT, "Internal: …/model.py: torn"),
    }
