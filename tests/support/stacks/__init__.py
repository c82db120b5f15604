"""Services beside those of a stack, and what operators do with a stack."""
