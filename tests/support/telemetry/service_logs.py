"""The log of one process of the stack, for what no other interface shows."""

import re

from deploy.local.servers.server import Server
from tests.support.waiting import eventually


def count_events(member: Server, event: str) -> int:
    """Return how many lines have this event so far."""
    path = member.process.log.path
    return path.read_text().count(f'"event":"{event}"') if path.exists() else 0


def find_worker(member: Server, pid: int) -> str:
    """Return the name of a dispatcher's process in its attempts, or "" if this was none."""
    path = member.process.log.path
    text = path.read_text() if path.exists() else ""
    found = re.findall(rf"dispatcher\.started\W+worker\W+([\w-]+).*\bpid\W+{pid}\b", text)  # in lines of text or JSON
    return found[-1] if found else ""


async def wait_for_event(member: Server, event: str, after: int, within: float = 45.0) -> None:
    """Return once there are more than `after` lines with this event."""

    async def poll() -> bool:
        return count_events(member, event) > after

    await eventually(poll, f"{event} in the log of {member.name}", within)
