"""A repeated batch is answered, also if a gateway of a later release accepted it."""

from datetime import UTC, datetime

from common import ids
from services.gateway.batches.submit import replay
from services.gateway.jobs.idempotency.store import KeyRecord

AT = datetime(2026, 11, 28, tzinfo=UTC)


def test_fields_of_a_later_release_are_ignored() -> None:
    """Of the stored answer. The body is read only for its digest."""
    error = b'{"index":1,"custom_id":null,"type":"urn:charonia:problem:later","detail":"x","errors":[],"later":1}'
    answer = b'{"total":2,"accepted":1,"errors":[%b],"later":1}' % error
    first = KeyRecord(ids.new(), True, b"digest", AT, None, None, "", answer, False)
    batch = replay(first, b"digest")
    assert (batch.row.id, batch.row.total, batch.row.accepted, batch.replayed) == (first.id, 2, 1, True)
    assert [(each.index, each.type) for each in batch.errors] == [(1, "urn:charonia:problem:later")]
