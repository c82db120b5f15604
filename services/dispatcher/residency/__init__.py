"""Decides which models a Triton holds in its memory, by the jobs that wait for them."""
