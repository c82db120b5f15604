"""Tests the bundle where nothing of Charonia is installed, and no network can be reached."""
