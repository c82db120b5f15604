"""`python -m services.dispatcher`."""

import sys

from common.lifecycle import main
from services.dispatcher.app import run
from services.dispatcher.settings import DispatcherSettings

if __name__ == "__main__":
    sys.exit(main("dispatcher", DispatcherSettings, run))
