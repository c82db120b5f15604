"""Attempts: claims jobs for wake-ups, and runs each on Triton to its recorded end."""
