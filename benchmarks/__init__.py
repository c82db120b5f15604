"""How fast Charonia is, beside Triton called directly on the same machine in the same run."""
