"""Claims jobs for wake-ups."""
