"""Periodic work: cleanup, overdue deliveries and ended subscriptions."""
