"""Files: large values that clients upload once and use in jobs by reference."""
