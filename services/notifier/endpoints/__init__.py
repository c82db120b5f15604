"""The endpoints that deliveries go to: their locks, and when each is checked next."""
