"""Every Python process with this folder and the repository in its PYTHONPATH loads this module at its start.

A gateway then has no place for a request that waits.
"""

from services.gateway.events import waiters

waiters.MAX_WAITERS = 0
