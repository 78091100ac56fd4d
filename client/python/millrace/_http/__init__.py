"""HTTP to gateways: all that the client knows of sockets, lists of gateways, tokens, certificates and shared memory.

The rest of the client asks `Gateways`, and only through what this module exports:

    json(method, path, query, body)   a resource as JSON, or with span=range(...) bytes of it
    batch(want, task, take)           a batch, whole and checked: its header, its bytes and where its samples lie in them
    close()                           the end: requests are called off, connections closed

Behind them one gateway is asked after another until one answers: `wire` is HTTP/1.1 over kept connections, `fleet` says which gateway
comes first, `shm` takes batches in shared memory, `settings` holds what the user gave.
"""

from .fleet import endpoints_of, expand, parse
from .gateways import Answered, Expected, Gateways
from .settings import TLS, Path, Routing, Settings, Token, secret
from .wire import Task

__all__ = [
    "TLS",
    "Answered",
    "Expected",
    "Gateways",
    "Path",
    "Routing",
    "Settings",
    "Task",
    "Token",
    "endpoints_of",
    "expand",
    "parse",
    "secret",
]
