"""Periodic work: cleanup, overdue deliveries, ended subscriptions, and a clock that is set back."""
