"""Models in PyTorch with random weights, and what the scenario `gpu` measures with them."""
