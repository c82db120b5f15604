"""More models than memory: how jobs arrive, and other rules beside Charonia's."""
