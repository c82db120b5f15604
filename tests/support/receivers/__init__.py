"""Receivers of webhooks and other HTTP servers, well-behaved or not."""
