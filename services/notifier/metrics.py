"""The notifier's metrics."""

from typing import Literal, get_args

from prometheus_client import Counter, Gauge, Histogram

from services.notifier.delivery_attempts.result import AttemptError

ResultLabel = Literal["succeeded", "failed", "postponed", "exhausted"]

events_taken = Counter("charonia_events_taken", "Events whose deliveries a notifier claimed or scheduled.")
delivery_attempts = Counter("charonia_delivery_attempts", "Delivery attempts, by result.", ["result"])
delivery_errors = Counter("charonia_delivery_errors", "Failed delivery attempts, by error.", ["code"])
deliveries_in_flight = Gauge("charonia_deliveries_in_flight", "Delivery attempts in flight.")
first_attempt_seconds = Histogram(
    "charonia_first_attempt_seconds",
    "Time from an event to the first delivery attempt, for each receiver.",
    buckets=(0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
delivery_seconds = Histogram(
    "charonia_delivery_seconds",
    "Duration of a delivery attempt.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
)

# Start every series at 0: Prometheus sees no increase in a series that starts at 1.
for label in get_args(ResultLabel):
    delivery_attempts.labels(label)
for error in AttemptError:
    delivery_errors.labels(error)
