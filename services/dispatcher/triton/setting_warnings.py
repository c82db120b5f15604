"""Warns of parameters in a model's config.pbtxt that have no effect."""

from typing import Any

from common.reuse.choice import SETTING, read_seconds
from common.telemetry.logs import Log
from services.dispatcher.triton.declared_memory import find_wrong_settings
from services.dispatcher.triton.model_version import ModelVersion, find_wrong_references

log = Log("triton")


def warn_of_settings(model: ModelVersion, config: Any) -> None:
    """Log what is wrong with a model's own settings. `config` is Triton's answer."""
    named = {"model": model.name, "version": model.version}
    if wrong := find_wrong_references(model, config):
        log.warning("model.reference_ignored", **named, inputs=wrong)
    if read_seconds(model.settings.get(SETTING, "0")) is None:
        log.warning("model.reuse_refused", **named, setting=model.settings[SETTING][:100])
    if unread := find_wrong_settings(model):
        log.warning("model.setting_ignored", **named, expected=unread)
