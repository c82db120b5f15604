"""Deliveries, as clients see them."""
