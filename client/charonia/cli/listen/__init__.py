"""Follows all events: prints them, or sends them to a local server."""
