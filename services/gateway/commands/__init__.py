"""Command lines for operators."""
