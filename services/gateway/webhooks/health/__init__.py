"""How the deliveries of subscriptions went."""
