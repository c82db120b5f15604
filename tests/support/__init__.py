"""Helpers for the tests: clients, receivers, servers and inputs."""
