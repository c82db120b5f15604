"""Which jobs ask the same, and when a result answers another job. Pure."""
