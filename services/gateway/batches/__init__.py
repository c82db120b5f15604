"""Batches of jobs: submitted as JSON lines, and read as JSON lines."""
