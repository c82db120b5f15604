"""DNS look-ups, each in a thread of its own.

A name server that does not answer blocks its thread for many seconds. An event loop has few threads for look-ups
(uvloop has two). So a few such names would block all other look-ups.
"""

import asyncio
import socket
from concurrent.futures import Future
from threading import BoundedSemaphore, Thread

RESOLVE_SECONDS = 5.0
MAX_THREADS = 1_000  # more than the attempts under way in a notifier

Addresses = list[tuple[socket.AddressFamily, str]]
_threads = BoundedSemaphore(MAX_THREADS)


async def resolve(host: str, port: int) -> Addresses:
    """Return the addresses of a host.

    Raise socket.gaierror (EAI_AGAIN: no answer), or UnicodeError for a wrong name.
    """
    if not _threads.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many look-ups under way")
    answer: Future[Addresses] = Future()
    # A daemon thread, so that the process can end before the name server answers.
    Thread(target=_look_up, args=(answer, host, port), name="lookup", daemon=True).start()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await asyncio.wrap_future(answer)
    except TimeoutError as error:
        raise socket.gaierror(socket.EAI_AGAIN, "no answer in time") from error


def _look_up(answer: Future[Addresses], host: str, port: int) -> None:
    answer.set_running_or_notify_cancel()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer.set_result([(socket.AddressFamily(family), str(address[0])) for family, _, _, _, address in found])
    except (OSError, ValueError) as error:
        answer.set_exception(error)
    finally:
        _threads.release()
