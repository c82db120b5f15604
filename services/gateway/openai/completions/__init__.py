"""Completions of a text."""
