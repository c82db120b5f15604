"""Jobs: submit, read, list, idempotency, queue limits and dead letters."""
