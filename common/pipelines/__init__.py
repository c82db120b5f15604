"""Pipelines: models in a row, each of which gets tensors from those before. All of it is pure."""
