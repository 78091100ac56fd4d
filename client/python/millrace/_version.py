"""The version of a checkout. What `make wheels` builds has the program's version here instead."""

__version__ = "0.0.0.dev0"
