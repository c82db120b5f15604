"""What two or more services share; imports no service."""

VERSION = "0.1.0"
