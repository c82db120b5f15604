"""Limits on the memory and the time that requests and responses take."""
