"""The models that this dispatcher serves: their catalogue, their concurrency, and the fair share of each tenant."""
