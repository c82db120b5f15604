"""Imports all that commands import, also late, in the process from which they are forked."""

import importlib
import pkgutil
import sys

from deploy.local.settings import ROOT

sys.path.insert(0, str(ROOT / "client"))
for name in ("charonia", "services.gateway.commands"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
