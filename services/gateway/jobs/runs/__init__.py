"""Runs of pipelines: how a submit begins one, and what cancel, retry and erase do to its steps."""
