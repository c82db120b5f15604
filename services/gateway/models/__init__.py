"""The models of Triton: the catalogue and queue depths."""
