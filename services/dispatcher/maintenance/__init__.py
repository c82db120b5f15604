"""Periodic work: sweeps, retention, and the completion of batches."""
