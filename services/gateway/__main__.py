"""`python -m services.gateway`."""

import sys

from common.lifecycle import main
from services.gateway.app.server import run
from services.gateway.settings import GatewaySettings

if __name__ == "__main__":
    sys.exit(main("gateway", GatewaySettings, run))
