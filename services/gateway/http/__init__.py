"""What every call shares: problem documents, parameters, bodies, draining, telemetry and health."""
