"""How many jobs of a tenant, or for a model, may wait."""
