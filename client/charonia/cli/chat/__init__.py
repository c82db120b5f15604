"""A conversation with a language model."""
