"""Event → deliveries → signed webhooks."""
