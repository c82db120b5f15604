"""Shows and sets what operators allow models and tenants."""
