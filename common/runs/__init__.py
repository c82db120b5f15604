"""Carries runs of pipelines on: what follows when jobs of their steps have ended."""
