"""Put before the command of a dispatcher: runs it with another rule of residency, which is the first argument.

A second argument of more than 1 says by how much time is compressed: arrivals are smoothed over so much less.
"""

import sys
from collections.abc import Callable, Mapping
from unittest.mock import patch

from common.lifecycle import main
from services.dispatcher.app import run
from services.dispatcher.residency import observations, planner
from services.dispatcher.residency.rule import Place, Plan, State, plan
from services.dispatcher.residency.state import Phase
from services.dispatcher.settings import DispatcherSettings
from tests.support.residency.other_rules import replace_least_recently_used


def plan_least_recently_used(state: State) -> Plan:
    """Decide as a proxy does that unloads the least recently used model."""
    wanted = [model.name for model in state.models if model.phase is Phase.ABSENT and model.waiting]
    places = {name: Place(number, None, "") for number, name in enumerate(wanted, 1)}  # so that it looks soon again
    return Plan(replace_least_recently_used(state), places)


RULES: Mapping[str, Callable[[State], Plan]] = {"charonia": plan, "lru": plan_least_recently_used}

if __name__ == "__main__":
    rule, compression = RULES[sys.argv[1]], float(sys.argv[2])
    smoothing = observations.SMOOTHING_SECONDS / compression
    with patch.object(planner, "plan", rule), patch.object(observations, "SMOOTHING_SECONDS", smoothing):
        sys.exit(main("dispatcher", DispatcherSettings, run))
