"""Every Python process with this folder and the repository in its PYTHONPATH loads this module at its start.

A gateway then keeps a key for so long that only the message about its revocation makes it forget the key in time.
"""

from services.gateway.auth import authentication

authentication.CACHED_SECONDS = 600.0
