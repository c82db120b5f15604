"""Idempotency keys: a repeated request gets the response of the first one."""
