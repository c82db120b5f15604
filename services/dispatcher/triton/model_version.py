"""What a version of a model declares. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from common.tensors import Datatype, Signature

REFERENCE = "charonia.reference"  # the parameter that names the inputs of which a model takes URLs
PREFIX = "charonia."  # of the parameters that are published with a model
BACKEND = "backend"  # the setting with the name of its backend
STEPS = "steps"  # the setting with the models of an ensemble, divided by slashes: no name of a folder has one
# Characters. Gateways read the settings of all models about once a second. A longer value is cut, so that whoever reads
# it sees that it is too long.
MAX_SETTING = 32 * 1024
MAX_SETTINGS = 64 * 1024


class ModelVersion(msgspec.Struct, frozen=True):
    """What a ready version of a model declares. Shapes include the batch dimension.

    `settings` are the parameters of its config.pbtxt that begin with PREFIX, its BACKEND, and its STEPS.
    """

    name: str
    version: str
    decoupled: bool
    max_batch_size: int
    instances: int
    inputs: list[Signature]
    outputs: list[Signature]
    settings: Mapping[str, str] = {}

    @property
    def takes_references(self) -> bool:
        """Whether the model takes a URL as one of its inputs."""
        return any(signature.reference for signature in self.inputs)


def read_version(name: str, version: str, metadata: Any, config: Any) -> ModelVersion:
    """Return what Triton's answers for a version declare."""
    optional = {tensor.name for tensor in config.input if tensor.optional}
    references = read_references(config)
    return ModelVersion(
        name=name,
        version=version,
        decoupled=config.model_transaction_policy.decoupled,
        max_batch_size=config.max_batch_size,
        instances=sum(group.count for group in config.instance_group) or 1,  # an ensemble has none
        inputs=[read_signature(tensor, optional, references) for tensor in metadata.inputs],
        outputs=[read_signature(tensor) for tensor in metadata.outputs],
        settings=read_settings(config),
    )


def read_settings(config: Any) -> dict[str, str]:
    """Return the settings of a model's configuration, in the order of their names, at most MAX_SETTINGS characters.

    A value is cut after one character more than MAX_SETTING. Steps that are longer are left out, because cut ones would
    be wrong. PostgreSQL takes no NUL in JSON, so it is replaced.
    """
    found = {BACKEND: config.backend or config.platform} if config.backend or config.platform else {}
    steps = "/".join(sorted({step.model_name for step in config.ensemble_scheduling.step}))
    if 0 < len(steps) <= MAX_SETTING:
        found[STEPS] = steps
    left = MAX_SETTINGS
    for name in sorted(name for name in config.parameters if name.startswith(PREFIX)):
        value = config.parameters[name].string_value[: MAX_SETTING + 1].replace("\0", "\ufffd")
        left -= len(name) + len(value)
        if left >= 0:
            found[name.replace("\0", "\ufffd")] = value
    return found


def read_steps(settings: Mapping[str, str]) -> list[str]:
    """Return the models of an ensemble. Other models have none."""
    return settings[STEPS].split("/") if STEPS in settings else []


def read_references(config: Any) -> list[str]:
    """Return the names in the parameter REFERENCE of a model's configuration."""
    if REFERENCE not in config.parameters:
        return []
    names = config.parameters[REFERENCE].string_value.split(",")
    return [name.strip() for name in names if name.strip()]


def find_wrong_references(version: ModelVersion, config: Any) -> list[str]:
    """Return the names in the parameter REFERENCE that are no inputs of BYTES. They have no effect."""
    right = {signature.name for signature in version.inputs if signature.reference}
    return [name for name in read_references(config) if name not in right]


def read_signature(tensor: Any, optional: Collection[str] = (), references: Collection[str] = ()) -> Signature:
    datatype = Datatype(tensor.datatype)
    reference = tensor.name in references and datatype is Datatype.BYTES
    return Signature(tensor.name, datatype, list(tensor.shape), tensor.name in optional, reference)
