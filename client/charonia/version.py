"""The version of the library, which is that of the services."""

VERSION = "0.1.0"
