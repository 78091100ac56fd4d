"""The version, which is that of the gateway (see millrace.version)."""

__version__ = "0.0.0.dev0"
