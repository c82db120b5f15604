"""Calls Triton over gRPC. The only package that imports tritonclient."""
