"""`python -m services.dispatcher.maintenance`: a process with only the maintenance. It needs no Triton."""

import sys

from common.lifecycle import main
from services.dispatcher.maintenance.app import run
from services.dispatcher.settings import MaintenanceSettings

if __name__ == "__main__":
    sys.exit(main("maintenance", MaintenanceSettings, run))
