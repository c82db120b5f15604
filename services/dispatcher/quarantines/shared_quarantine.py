"""Keeps the quarantine of this dispatcher equal to that of the others with the same Triton."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from common.errors import Unavailable
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.quarantines.reloader import Reloader
from services.dispatcher.quarantines.store import QuarantineStore, SavedQuarantine
from services.dispatcher.triton.quarantine import Quarantine

INTERVAL_SECONDS = 1.0  # a stall that another dispatcher saw is known here after this time
CLAIM_SECONDS = 5.0  # after which another dispatcher takes over the reload of one that died

log = Log("quarantine")


class SharedQuarantine:
    def __init__(
        self,
        quarantine: Quarantine,
        store: QuarantineStore,
        reloader: Reloader,
        refresh_requested: asyncio.Event,
        server: str,
    ) -> None:
        """Setting `refresh_requested` makes the catalogue refresh at once. `server` is the same for one Triton only."""
        self._quarantine = quarantine
        self._store = store
        self._reloader = reloader
        self._refresh_requested = refresh_requested
        self._server = server
        self._seen: dict[str, SavedQuarantine] | None = None  # None before the first look
        self._shared: dict[str, tuple[int, int]] = {}  # of each saved one that holds: the local stall, the number

    async def run(self) -> None:
        """Synchronize at intervals, and at once after a local change, until cancelled."""
        outage = Outage()
        while True:
            self._quarantine.changed.clear()
            with outage.tolerate("quarantine.not_shared", log):
                await self.synchronize()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_SECONDS):
                    await self._quarantine.changed.wait()

    async def synchronize(self) -> None:
        """Save what changed here, apply what changed elsewhere, and reload what no other dispatcher reloads."""
        held = {model: self._quarantine.count_stalls(model) for model in self._quarantine.models}
        over = {model: number for model, (stall, number) in self._shared.items() if held.get(model) != stall}
        begun = {model for model in held if model not in self._shared or model in over}
        if over:
            await self._store.end(self._server, over, self._quarantine.unloaded)
        if begun:
            await self._store.begin(self._server, {model: self._quarantine.executions.get(model) for model in begun})
        found = await self._store.list_all(self._server)
        for saved in found:
            if saved.model not in begun:
                self._apply(saved)
        self._seen = {saved.model: saved for saved in found}
        self._shared = {  # also what was released meanwhile: the next time ends it
            saved.model: (held.get(saved.model, self._quarantine.count_stalls(saved.model)), saved.number)
            for saved in found
            if saved.holds
        }
        if held.keys() != self._quarantine.models:
            self._refresh_requested.set()
        await self._save_executions(found)
        await self._save_reloads(dict.fromkeys(self._reloader.running, CLAIM_SECONDS))
        if any(saved.holds or saved.reloads for saved in found) and self._reloader.is_possible:
            claimed = await self._store.claim_reloads(self._server, CLAIM_SECONDS, self._quarantine.seen)
            self._reloader.start(claimed)  # only what Triton still shows to be stalled

    async def stop(self) -> None:
        """Leave the reloads that are not over to another dispatcher, or to the next start of this one."""
        interrupted = await self._reloader.stop()
        with contextlib.suppress(Unavailable):  # then others wait until the claims lapse
            await self._save_reloads(dict.fromkeys(interrupted, 0.0))

    async def _save_executions(self, found: Sequence[SavedQuarantine]) -> None:
        """Save the first count of executions since a stall, so that each dispatcher knows a new process by it."""
        counts = {
            saved.model: (saved.number, self._quarantine.executions[saved.model])
            for saved in found
            if saved.holds and saved.executions is None and saved.model in self._quarantine.executions
        }
        if counts:
            await self._store.save_executions(self._server, counts)

    async def _save_reloads(self, running: Mapping[str, float]) -> None:
        """Save for how long the running reloads are claimed, and how others ended."""
        if seconds := {**self._reloader.take_ended(), **running}:
            await self._store.save_reloads(self._server, seconds)

    def _apply(self, saved: SavedQuarantine) -> None:
        """Hold a model that stalled elsewhere. Release one that was reloaded elsewhere."""
        before = self._seen.get(saved.model) if self._seen else None
        if before is None or before.number != saved.number:
            if saved.holds or self._seen is not None:  # even if it is over: an older request may still run
                self._quarantine.hold(saved.model, "shared", saved.executions)
            if not saved.holds:
                self._quarantine.release(saved.model)
        elif before.holds and not saved.holds:
            self._quarantine.release(saved.model)


def name_server(url: str, host: str) -> str:
    """Return a name for the Triton at a URL as this host sees it. A loopback address is another Triton on each host."""
    address = url.rpartition(":")[0].strip("[]")
    is_local = address == "localhost" or address == "::1" or address.startswith("127.")
    return f"{host}/{url}" if is_local else url
