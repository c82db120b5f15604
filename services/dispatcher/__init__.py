"""The dispatcher: claims jobs, runs them on Triton and records their results."""
