"""Ends the deliveries of disabled and deleted subscriptions."""
