"""A sample claim, a sender, and a recorder that keeps its records."""

from datetime import UTC, datetime
from uuid import UUID

from services.notifier.claims.store import ClaimedDelivery
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.recorder import AttemptRecorder
from services.notifier.delivery_attempts.store import AttemptRecord

AT = datetime(2026, 11, 20, tzinfo=UTC)
CLAIM = ClaimedDelivery(
    id=UUID(int=1),
    tenant_id=UUID(int=5),
    job_id=UUID(int=2),
    webhook_id=UUID(int=4),
    endpoint_id=UUID(int=4),
    event_type="job.succeeded",
    attempt=3,
    url="https://example.com",
    traceparent="00-a-b-00",
    headers=None,
    body=b"{}",
    secrets=[b""],
    claimed_at=AT,
    age=0.0,
    tries=2,
    event_age=0.0,
)


class SenderStub(Sender):
    """Sends nothing."""

    def __init__(self) -> None:
        pass


class RecorderStub(AttemptRecorder):
    """Keeps records in memory."""

    def __init__(self) -> None:
        self.records: list[AttemptRecord] = []

    async def record(self, record: AttemptRecord) -> bool:
        self.records.append(record)
        return True
