"""Deletes files that nobody needs: expired ones, and objects without a row."""
