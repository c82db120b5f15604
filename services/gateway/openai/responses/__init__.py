"""Responses: answers that are kept, in the background too, each of which may continue another."""
