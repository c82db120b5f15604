"""`make demo`: starts the stack, runs a real job and a pipeline, and prints each step."""
