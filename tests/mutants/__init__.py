"""Seeded bugs, each of which one named test must catch."""
