"""The asynchronous half. `python client/generate_sync.py` makes the synchronous half from it."""
