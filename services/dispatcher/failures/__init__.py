"""Decides what a failed attempt means for its job, for its model and for suspected poison jobs."""
