"""Shares the quarantines of models between the dispatchers of one Triton, and reloads these models."""
