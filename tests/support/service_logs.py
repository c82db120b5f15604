"""The log of one process of the stack, for what no other interface shows."""

from deploy.local.server import Server
from tests.support.waiting import eventually


def count_events(member: Server, event: str) -> int:
    """Return how many lines have this event so far."""
    path = member.process.log.path
    return path.read_text().count(f'"event":"{event}"') if path.exists() else 0


async def wait_for_event(member: Server, event: str, after: int, within: float = 20.0) -> None:
    """Return once there are more than `after` lines with this event."""

    async def poll() -> bool:
        return count_events(member, event) > after

    await eventually(poll, f"{event} in the log of {member.name}", within)
