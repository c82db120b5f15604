"""Traces, metrics and logs, as tests read them."""
