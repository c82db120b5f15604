"""What becomes of jobs that wait for a twin: they take its result, one becomes the twin, or all are released. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from common.job_states import Status
from common.jobs.take_results import Joiner
from common.jobs.twins import FoundTwin, Promotion
from common.reuse.decisions import Loads, is_live
from services.dispatcher.reuse.takers import Taker, choose_takers, promote_first


class Served(NamedTuple):
    """A version of a model. None: the newest."""

    model: str
    version: str | None


class Group(NamedTuple):
    """The oldest jobs that wait for the twin of a key, at least one. `twin` is None before the first one is elected."""

    joiners: Sequence[Joiner]
    twin: FoundTwin | None

    @property
    def waits(self) -> bool:
        """Whether the twin may still succeed."""
        return self.twin is not None and self.twin.state is not None and is_live(self.twin.state)

    @property
    def twin_is_queued(self) -> bool:
        """Whether the twin waits, so that it may have to run earlier."""
        return self.twin is not None and self.twin.state is not None and self.twin.state.status is Status.QUEUED

    @property
    def own(self) -> Served:
        """What its jobs ask for."""
        return Served(self.joiners[0].model, self.joiners[0].version)

    @property
    def answering(self) -> Served:
        """What made the twin's result. Of a fallback model it is always the newest version."""
        if self.twin is None or self.twin.state is None or self.twin.state.model == self.own.model:
            return self.own
        return Served(self.twin.state.model, None)


class Plan(NamedTuple):
    """`takers` end. `promotions` make twins. `released` share nothing any more: their model is gone."""

    takers: Sequence[Taker]
    promotions: Sequence[Promotion]
    released: Sequence[Joiner]


def plan(groups: Iterable[Group], loads: Mapping[Served, Loads | None], at: datetime) -> Plan:
    """Return what to do with groups now. `loads` has all that they name. None: there is no such model any more."""
    takers: list[Taker] = []
    promotions: list[Promotion] = []
    released: list[Joiner] = []
    for group in groups:
        if group.waits:
            continue
        if chosen := choose_takers(group.twin, group.joiners, loads[group.answering] or (), at):
            takers += chosen
        elif loads[group.own] is None:
            released += group.joiners  # they fail together, not one after the other
        else:
            promotions.append(promote_first(group.twin, group.joiners))
    return Plan(takers, promotions, released)
