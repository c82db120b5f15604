"""The part of the scenario `notifier` that has an aim."""

from benchmarks.scenarios.notifier import DELIVERIES

SCENARIO = DELIVERIES
