"""What hypothesis may let happen to jobs."""

from typing import NamedTuple, get_args

from hypothesis import strategies as st

from tests.integration.jobs import LEASE
from tests.integration.world import MODELS, Deed

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
# Those that lead on come more often. They are no rules of their own: Hypothesis leaves whole rules out of most runs.
KINDS = ["act"] * 4 + ["act late", "retry", "cancel"] * 2 + ["claim", "freeze", "replay", "sweep", "sweep late", "wait"]


class Move(NamedTuple):
    """What somebody does, to one of the jobs or to all."""

    kind: str
    job: int
    deed: Deed
    model: str | None
    seconds: float


MOVE = st.builds(
    Move,
    st.sampled_from(KINDS),
    st.integers(0, JOBS - 1),
    st.sampled_from(get_args(Deed)),
    st.sampled_from([None, None, *MODELS]),
    st.sampled_from([1.0, 40.0, LEASE + 1, DAY]),
)
