"""Rows written directly into a database, and a search in them."""
