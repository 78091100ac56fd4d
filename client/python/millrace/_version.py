"""The version of a checkout. In wheels from `make wheels`, this is the program's version."""

__version__ = "0.0.0.dev0"
