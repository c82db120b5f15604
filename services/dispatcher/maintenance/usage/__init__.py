"""Adds up what tenants used."""
