"""Looks names up, each in a thread of its own.

A name server that does not answer holds its thread for many seconds. Event loops have a few threads for all look-ups
(uvloop two), so a few such names would keep every other name from being looked up.
"""

import asyncio
import socket
from concurrent.futures import Future
from threading import BoundedSemaphore, Thread

RESOLVE_SECONDS = 5.0
MAX_THREADS = 1_000  # more than a notifier has attempts under way

Addresses = list[tuple[socket.AddressFamily, str]]
free = BoundedSemaphore(MAX_THREADS)


async def resolve(host: str, port: int) -> Addresses:
    """The addresses of a host; raises socket.gaierror (EAI_AGAIN: no answer), and UnicodeError for an odd name."""
    if not free.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many look-ups under way")
    answer: Future[Addresses] = Future()
    # A daemon, or the process could not end before the name server answers.
    Thread(target=look_up, args=(answer, host, port), name="lookup", daemon=True).start()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await asyncio.wrap_future(answer)
    except TimeoutError as error:
        raise socket.gaierror(socket.EAI_AGAIN, "no answer in time") from error


def look_up(answer: Future[Addresses], host: str, port: int) -> None:
    answer.set_running_or_notify_cancel()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer.set_result([(socket.AddressFamily(family), str(address[0])) for family, _, _, _, address in found])
    except (OSError, ValueError) as error:
        answer.set_exception(error)
    finally:
        free.release()
