"""All events of a tenant, for receivers that nobody can reach from outside."""
