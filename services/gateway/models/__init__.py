"""The models of Triton: the catalogue, the validation of inputs, and queue depths."""
