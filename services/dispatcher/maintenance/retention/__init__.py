"""Removes what is older than its retention."""
