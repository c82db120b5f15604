"""Sends failed deliveries of a subscription again."""
