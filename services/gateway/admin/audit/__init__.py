"""Who changed a tenant's keys, webhooks and limits."""
