"""The planted bugs, one module per contract: name, the test that must notice the bug, the edits.

A module's docstring is the contract: heading, colon, sentence. The name says what the program does wrong.
The test is the one that covers that mistake: "./gateway TestRanges" or "./gateway TestRanges/suffix"
(package and Go test; also "./integration TestX" and "./integration/browser TestX"),
"client/python/tests/test_pool.py test_x" or "conformance client node" (a part of tools/conformance.py). It
must pass without the bug and fail with it, every time. An edit is (file, text that occurs there once,
replacement). docs/dev/testing.md describes which bugs belong here.
"""

from . import cluster, deadlines, etags, formats, kills, memory, once, orders, proxies, rights, shared, stores, whole

CONTRACTS = [whole, etags, once, orders, rights, memory, deadlines, cluster, shared, stores, formats, proxies, kills]
PLANTS = [plant for contract in CONTRACTS for plant in contract.PLANTS]
