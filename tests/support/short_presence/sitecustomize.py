"""Every Python process with this folder and the repository in its PYTHONPATH loads this module at its start.

A dispatcher then remembers waiters for TEST_MEMORY seconds.
"""

import os

from services.dispatcher import control

control.PRESENCE_SECONDS = control.REPEAT_SECONDS = float(os.environ["TEST_MEMORY"])
