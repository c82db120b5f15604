"""Webhook subscriptions, their secrets and health, deliveries and redelivery."""
