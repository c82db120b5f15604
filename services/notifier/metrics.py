"""What the notifier counts."""

from prometheus_client import Counter, Gauge, Histogram

events_fanned_out = Counter("charonia_events_fanned_out", "Events whose deliveries were made.")
deliveries = Counter("charonia_deliveries", "Attempts to deliver, by what became of them.", ["result"])
deliveries_in_flight = Gauge("charonia_deliveries_in_flight", "Attempts under way.")
delivery_seconds = Histogram(
    "charonia_delivery_seconds",
    "Time of one attempt to deliver.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30),
)
