"""The inputs of jobs that are in files, as bytes or by reference."""
