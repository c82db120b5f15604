"""Completes batches."""
