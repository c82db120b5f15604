"""Jobs that were accepted, until all of their webhooks have come."""

from benchmarks.driver import Driver
from benchmarks.speed import JobsLost

MARGIN = 10.0  # seconds for the receiver's own answer


def drain(receiver: Driver, jobs: int, within: float) -> dict[int, float]:
    """When each job's webhook came, by the job's number; raise JobsLost unless every one came exactly once."""
    found = receiver.ask(within + MARGIN, kind="arrived", count=jobs, within=within)
    if len(found["arrived"]) != jobs or found["doubled"]:
        raise JobsLost(f"of {jobs} jobs {len(found['arrived'])} webhooks arrived, {found['doubled']} came twice")
    return dict(found["arrived"])
