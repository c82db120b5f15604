"""The Open Inference Protocol below /v2, as Triton itself speaks it."""
