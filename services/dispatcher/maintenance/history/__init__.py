"""Keeps what has ended for its retention: begins and empties generations."""
