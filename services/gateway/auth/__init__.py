"""Who may call what, and how often: keys, scopes, permissions for models, rate limits."""
