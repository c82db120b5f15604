"""The metrics of clients that wait."""

from prometheus_client import Gauge

waiters = Gauge("charonia_waiters", "Requests, streams and WebSockets that wait for a job now.")
