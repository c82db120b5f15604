"""The scenarios, by the names on the command line. Each is a module of this name."""

from importlib import import_module

from benchmarks.harness.bench import Scenario

NAMES = (
    "speed",
    "peers",
    "work",
    "submit",
    "burst",
    "pair",
    "memory",
    "big",
    "retention",
    "sustained",
    "many",
    "fairness",
    "waiting",
    "feed",
    "files",
    "gpu",
    "growth",
    "snapshot",
    "notifier",
    "tracing",
    "pipelines",
    "chat",
    "reuse",
    "residency",
    "idle",
    "consoles",
    "core",
    "deliveries",
)


def load_scenario(name: str) -> Scenario:
    """Import a scenario only now: some need packages that are installed for development only."""
    scenario: Scenario = import_module(f"benchmarks.scenarios.{name}").SCENARIO
    return scenario
