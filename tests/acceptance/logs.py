"""What a member of the stack has written to its log, where nothing else tells that it noticed."""

from deploy.local.server import Server
from tests.acceptance.waiting import eventually


def count_events(member: Server, event: str) -> int:
    """Lines that tell of that event, so far."""
    path = member.process.log.path
    return path.read_text().count(f'"event":"{event}"') if path.exists() else 0


async def wait_for_event(member: Server, event: str, after: int, within: float = 20.0) -> None:
    """Returns once there are more of them than `after`."""

    async def look() -> bool:
        return count_events(member, event) > after

    await eventually(look, f"{event} in the log of {member.name}", within)
