"""API keys that a tenant makes and revokes itself."""
