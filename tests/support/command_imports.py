"""Imports all that a command imports, also late, in the process from which commands are forked."""

import importlib
import pkgutil
import sys

from deploy.local.settings import ROOT

sys.path.insert(0, str(ROOT / "client"))
charonia = importlib.import_module("charonia")
for module in pkgutil.walk_packages(charonia.__path__, "charonia."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
