"""The HTTP client: sockets, lists of gateways, tokens, certificates and shared memory.

The rest of the client uses `Gateways`, only through the exports of this module:

    json(method, path, query, body)   a resource as JSON, or with span=range(...) bytes of it
    batch(expected, task, take)       a complete, checked batch: its header, bytes and layout
    close()                           cancels requests and closes connections

Each request tries one gateway after another: `wire` is HTTP/1.1 over kept connections, `fleet` selects the gateway,
`shm` receives batches in shared memory, `settings` holds the user's settings.
"""

from .fleet import endpoints_of, expand, parse
from .gateways import Answered, Expected, Gateways
from .settings import TLS, Path, Routing, Settings, Token, secret
from .wire import Task

__all__ = [
    "TLS", "Answered", "Expected", "Gateways", "Path", "Routing", "Settings", "Task", "Token", "endpoints_of", "expand", "parse", "secret",
]  # fmt: skip
