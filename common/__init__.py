"""Code that two or more services share. It imports no service."""

VERSION = "0.1.0"
