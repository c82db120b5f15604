"""What administrators of a tenant use: API keys, and the audit log of changes."""
