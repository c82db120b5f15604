"""Run the notifier: `python -m services.notifier`."""

import sys

from common.lifecycle import main
from services.notifier.app import run
from services.notifier.settings import NotifierSettings

if __name__ == "__main__":
    sys.exit(main("notifier", NotifierSettings, run))
