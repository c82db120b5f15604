"""The composition root: settings in, a running server out."""
