"""Pipelines: their definitions, checked against the catalogue before they are stored."""
