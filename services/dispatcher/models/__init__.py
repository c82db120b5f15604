"""The models that this dispatcher serves: their catalogue, their concurrency, and the turns of tenants."""
