"""`make demo`: the stack, and one real job through it, printed as it happens."""
