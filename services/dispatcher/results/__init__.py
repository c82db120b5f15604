"""Records what came of attempts."""
