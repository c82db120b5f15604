"""The search for jobs begins at the right tenant and id."""

from uuid import UUID

from common import ids
from common.jobs import Priority
from services.dispatcher.models.fair_share import FULL_SEARCH_SECONDS, MARGIN_MS, NIL, Cursor, FairShare, rewind

HIGH, LOW = Priority.HIGH, Priority.LOW


def test_a_search_covers_much_older_jobs_at_intervals_and_after_finding_too_few() -> None:
    now = 0.0
    share, tenant, job = FairShare(lambda: now), ids.new(), ids.new()
    assert share.next_cursor(HIGH) == Cursor(NIL, NIL)
    share.note_start(tenant, job, HIGH)
    assert share.next_cursor(HIGH) == Cursor(tenant, rewind(job))
    assert share.next_cursor(LOW) == Cursor(NIL, NIL)
    now = FULL_SEARCH_SECONDS
    assert share.next_cursor(HIGH) == Cursor(tenant, NIL)
    assert share.next_cursor(HIGH) == Cursor(tenant, rewind(job))
    share.request_full_search(HIGH)
    assert share.next_cursor(HIGH) == Cursor(tenant, NIL)


def test_the_margin_is_a_minute_before_the_id() -> None:
    job = ids.new()
    assert (job.int >> 80) - (rewind(job).int >> 80) == MARGIN_MS
    assert rewind(UUID(int=5)) == NIL


def test_an_ended_job_is_no_longer_counted() -> None:
    share, tenant = FairShare(), ids.new()
    for _ in range(2):
        share.note_start(tenant, ids.new(), HIGH)
    share.note_end(tenant)
    assert share.running == {tenant: 1}
    share.note_end(tenant)
    assert tenant not in share.running
