"""Builds archives that install the whole stack without a network; `installer.py` is what runs there."""
