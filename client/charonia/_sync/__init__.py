"""The synchronous half, generated from the asynchronous one; only `blocking.py` is written by hand."""
