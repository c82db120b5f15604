"""Batches in OpenAI's words: the lines of a file become jobs, and the jobs lines of two other files."""
