"""The planted bugs: name, the test that must notice, the edits.

A plant is a mistake that somebody could make, and that would deliver a wrong byte, lose a sample,
or leak. Its name says what the program does then. Its test is the one that was written against that
mistake: "./gateway TestRanges" or "./gateway TestRanges/suffix" (package and Go test; also
"./integration TestX" and "./integration/browser TestX"), "client/python/tests/test_pool.py test_x" or "conformance client node" (a
part of tools/conformance.py). The named test alone is run: it must pass without the plant and fail
with it. Choose a test that fails every time, not one that draws many cases and fails as well. An
edit is (file, text that stands there once, text that replaces it). To add one: append it to the file
of its room here, then `integration/sabotage/run.sh NAME` must say "noticed".
"""

from . import (
    auth,
    caches,
    certs,
    clients,
    closing,
    cluster,
    datapath,
    fields,
    frameworks,
    gateway,
    gateway_rights,
    index,
    judges,
    lent,
    lent_python,
    living,
    local,
    named,
    orders,
    packing,
    page,
    page_live,
    pages,
    parquet,
    programs,
    release,
    samples,
    selections,
    shared_clients,
    sockets,
    stores,
    watching,
)

PLANTS = [plant for room in (stores, index, packing, parquet, named, fields, caches, datapath, closing, orders, gateway, gateway_rights, auth, certs, judges, lent, lent_python, cluster, clients, shared_clients, programs, living, local, sockets, pages, page, page_live, selections, samples, frameworks, release, watching) for plant in room.PLANTS]
