"""The planted bugs: name, the packages whose tests must notice, the edits.

An edit is (file, text that stands there once, text that replaces it). Each is a mistake
that somebody could make, and that would deliver a wrong byte, lose a sample, or leak.
"""

from . import caches, clients, cluster, datapath, gateway, index, order, programs, stores

PLANTS = [plant for room in (stores, index, caches, datapath, order, gateway, cluster, clients, programs) for plant in room.PLANTS]
