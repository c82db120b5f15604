"""`make demo`: starts the stack, runs one real job and prints each step."""
