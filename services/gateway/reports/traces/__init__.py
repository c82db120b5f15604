"""The trace of a job from its rows: always there, whatever OpenTelemetry samples."""
