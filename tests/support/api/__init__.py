"""Clients of the API, and what they send and expect."""
