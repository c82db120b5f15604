"""Runs a private stack, puts load on it, measures its processes and reports the figures."""
