"""What Hypothesis makes happen to jobs."""

from typing import NamedTuple, get_args

from hypothesis import strategies as st

from tests.integration.jobs import LEASE
from tests.integration.world import MODELS, Action

JOBS = 2
DAY = 86_400.0  # seconds
OPTIONS = st.fixed_dictionaries(
    {
        "max_attempts": st.integers(1, 3),
        "initial_delay": st.sampled_from([0.0, 10.0]),
        "fallback_model": st.sampled_from([None, "small"]),
        "expires_in": st.sampled_from([None, 30.0]),
        "scheduled": st.booleans(),
        "wants_started": st.booleans(),
    }
)
# Frequent kinds come first. They are not rules of their own, because Hypothesis leaves whole rules out of most runs.
KINDS = (
    ["act"] * 4
    + ["act late", "retry", "cancel"] * 2
    + ["claim", "freeze", "crash", "replay", "sweep", "sweep late", "wait", "erase", "complete"]
)


class Move(NamedTuple):
    """One action on one job, or on all."""

    kind: str
    job: int
    action: Action
    model: str | None
    seconds: float


MOVE = st.builds(
    Move,
    st.sampled_from(KINDS),
    st.integers(0, JOBS - 1),
    st.sampled_from(get_args(Action)),
    st.sampled_from([None, None, *MODELS]),
    st.sampled_from([1.0, 40.0, LEASE + 1, DAY]),
)
