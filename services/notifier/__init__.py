"""The notifier: events become deliveries, and deliveries become signed webhooks."""
