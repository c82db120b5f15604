"""Loaded at its start by every Python process that has this folder, and ours, in its PYTHONPATH.

A dispatcher remembers for TEST_MEMORY seconds that somebody listens.
"""

import os

from services.dispatcher import listeners

listeners.MEMORY_SECONDS = listeners.DEAF_SECONDS = float(os.environ["TEST_MEMORY"])
