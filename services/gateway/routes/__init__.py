"""The calls of the API, a module for each thing."""
