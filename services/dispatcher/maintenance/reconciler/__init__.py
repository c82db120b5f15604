"""Wakes queues whose messages were lost."""
