"""Starts the parts of a stack again that end by themselves, and restarts those that are to run new code."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial

from deploy.local.errors import LocalError, ProcessDied
from deploy.local.servers.server import Server

DEATHS = 5  # of one part within WITHIN_SECONDS, after which another start would not help
WITHIN_SECONDS = 60.0


class Supervisor:
    """Watches parts that have started."""

    def __init__(
        self,
        parts: Sequence[Server],
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` is called with lines for a person, also by other threads."""
        self._parts = parts
        self._report = report
        self._clock = clock
        self._deaths: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=DEATHS))
        self._starting: dict[str, threading.Thread] = {}
        self._refused: dict[str, Exception] = {}  # starts that failed at once, such as by a taken port
        self._broken: dict[str, str] = {}  # why restarted parts did not become ready; they wait for the next restart

    def look(self) -> None:
        """Start what has ended. Raise ProcessDied, with the end of the log, after five deaths of a part in a minute."""
        for part in self._parts:
            if not (part.process.running or self._is_starting(part) or part.name in self._broken):
                self._start_again(part)

    def _start_again(self, part: Server) -> None:
        deaths = self._deaths[part.name]
        deaths.append(self._clock())
        if len(deaths) == DEATHS and deaths[-1] - deaths[0] <= WITHIN_SECONDS:
            self._give_up(part)
        refused = self._refused.pop(part.name, None)
        ending = f"could not start ({first_line(refused)})" if refused else f"ended with code {part.process.returncode}"
        self._report(f"{part.name} {ending}, and is started again. Its log: {part.process.log.path}")
        try:
            part.launch()
        except (LocalError, OSError) as error:
            self._refused[part.name] = error  # the next look counts it as a death
            return
        self._begin(part, self._wait_ready)

    def restart(self, part: Server) -> bool:
        """Stop a part and start it again in the background, unless it is starting. Return whether that has begun."""
        if self._is_starting(part):
            return False
        self._broken.pop(part.name, None)
        self._begin(part, self._restart)
        return True

    def is_ready(self, part: Server) -> bool:
        """Return whether a part runs, and was ready after its last start."""
        return part.process.running and not self._is_starting(part)

    def find_failure(self, part: Server) -> str | None:
        """Return why a part ended before it was ready after a restart. It waits for another restart."""
        return None if self._is_starting(part) else self._broken.get(part.name)

    def _is_starting(self, part: Server) -> bool:
        starting = self._starting.get(part.name)
        return starting is not None and starting.is_alive()

    def _begin(self, part: Server, start: Callable[[Server], None]) -> None:
        # In a thread, because other parts may end while Triton loads its models.
        starting = threading.Thread(target=start, args=[part], name=f"start-{part.name}", daemon=True)
        self._starting[part.name] = starting
        starting.start()

    def _restart(self, part: Server) -> None:
        part.stop()
        self._report(f"{part.name} is restarted.")
        try:
            part.launch()
            part.wait_ready()
        except (LocalError, OSError) as error:  # such as by code that is half written
            part.kill()
            self._broken[part.name] = f"{error}"
            self._report(f"{part.name} is not ready, and waits for another restart: {error}")

    def _wait_ready(self, part: Server) -> None:
        try:
            part.wait_ready()
        except ProcessDied:
            return  # which the next look finds
        except LocalError as error:
            self._report(f"{error}")
            part.kill()  # it hangs; the next look starts it again

    def _give_up(self, part: Server) -> None:
        try:
            part.process.check()
        except ProcessDied as error:
            advice = f"it ended {DEATHS} times within {WITHIN_SECONDS:g} s; mend what its log names, then start again"
            raise ProcessDied(f"{self._refused.get(part.name, error)}\n{advice}") from None


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
