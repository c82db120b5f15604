"""Shows and sets which buckets tenants may use."""
