"""The three services; none imports another."""
