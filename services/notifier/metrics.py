"""What the notifier counts."""

from typing import Literal, get_args

from prometheus_client import Counter, Gauge, Histogram

from services.notifier.outcome import Fault

Result = Literal["succeeded", "failed", "postponed", "exhausted"]

events_fanned_out = Counter("charonia_events_fanned_out", "Events whose deliveries were made.")
deliveries = Counter("charonia_deliveries", "Attempts to deliver, by what became of them.", ["result"])
delivery_faults = Counter("charonia_delivery_faults", "Attempts to deliver that failed, by error.", ["error"])
deliveries_in_flight = Gauge("charonia_deliveries_in_flight", "Attempts under way.")
first_attempt_seconds = Histogram(
    "charonia_first_attempt_seconds",
    "Time from an event to the first attempt to deliver it, to each of its receivers.",
    buckets=(0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
delivery_seconds = Histogram(
    "charonia_delivery_seconds",
    "Time of one attempt to deliver.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
)

for each in get_args(Result):  # from 0 on: an increase from nothing is none to Prometheus
    deliveries.labels(each)
for fault in Fault:
    delivery_faults.labels(fault)
