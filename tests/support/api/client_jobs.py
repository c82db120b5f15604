"""Jobs as the client reads them, for tests without a gateway."""

from collections.abc import Sequence
from datetime import datetime, timezone

from charonia.schemas import JobData, Metrics, Output

BEGINNING = datetime(2026, 11, 22, tzinfo=timezone.utc)  # noqa: UP017


def make_succeeded(outputs: Sequence[Output]) -> JobData:
    """Return a succeeded job with these outputs."""
    return JobData(
        id="job_1",
        status="succeeded",
        model="m",
        version=None,
        priority="normal",
        attempt=1,
        max_attempts=3,
        created_at=BEGINNING,
        run_at=BEGINNING,
        started_at=BEGINNING,
        finished_at=BEGINNING,
        expires_at=None,
        outputs=list(outputs),
        error=None,
        queue_position=None,
        webhook_status="none",
        metadata={},
        trace_id="0" * 32,
        metrics=Metrics(),
    )
