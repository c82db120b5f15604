"""Deletes rows that no delivery needs."""
