"""The dispatcher's settings."""

import os
import secrets
import socket

import msgspec

from common.settings import Settings


def name_worker() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


class DispatcherSettings(Settings, frozen=True, kw_only=True):
    triton_url: str  # host:port of Triton's gRPC
    public_url: str = ""
    trace_url: str = ""
    lease: float = 30.0  # seconds a claim holds without a heartbeat
    catalogue_interval: float = 2.0  # seconds between looks at Triton's models
    sweep_interval: float = 0.5  # seconds between looks for due, expired and abandoned jobs
    slots: int = 0  # inferences of one model at a time; 0: what Triton can use
    max_message: int = 64 * 1024 * 1024  # bytes of one request to, or response from, Triton
    worker: str = msgspec.field(default_factory=name_worker)
