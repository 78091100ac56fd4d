"""The version: that of the gateway of the same release; between releases 0.0.0.dev0, where the gateway says devel."""

__version__ = "0.0.0.dev0"
