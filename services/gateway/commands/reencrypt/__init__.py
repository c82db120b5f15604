"""Encrypts all secrets anew with the first key."""
