"""Shared memory: a segment belongs to one principal and dataset, and never changes while a reader maps it."""

PLANTS = [
    (
        "gateway rewrites memory that readers hold",
        "./integration/sharedmemory TestReaders",
        [('internal/shared/pool.go', 'if one.state == free && one.purpose', 'if one.state != filling && one.purpose')],
    ),
    (
        "gateway reuses a principal's memory for another principal",
        "./integration/sharedmemory TestReaders",
        [('internal/shared/pool.go', 'one.purpose == purpose &&', '')],
    ),
    (
        "gateway never reclaims the memory of killed readers",
        "./integration/sharedmemory TestReaders",
        [('internal/shared/pool.go', '\t\tif s.held() {\n\t\t\treturn false\n\t\t}\n', '\t\tif s.ended != nil {\n\t\t\treturn false\n\t\t}\n')],
    ),
    (
        "pool shows a batch to another principal",
        "./internal/shared TestLend_SeparatesPurposes",
        [('internal/shared/pool.go', 'one.purpose == purpose &&', 'one.purpose.Dataset == purpose.Dataset && one.purpose.Rules == purpose.Rules &&')],
    ),
    (
        "pool keeps a killed reader's memory while a child holds its socket",
        "./internal/shared TestSettle_DropsSegmentsOfEndedReaders",
        [('internal/shared/pool.go', 's.state == lent && !s.held() ||', '')],
    ),
    (
        "pool lets readers write",
        "./internal/shared TestReadersCannotWrite",
        [('internal/shared/memory_linux.go', ' | unix.F_SEAL_FUTURE_WRITE', '')],
    ),
    (
        "Python client releases memory that is still viewed",
        "client/python/tests/test_shared.py test_memory_is_lent_again_only_when_nobody_looks",
        [('client/python/millrace/_http/shm.py', 'for lease, segment in self._lent.items() if is_free(self._mapped[segment])]', 'for lease, segment in self._lent.items()]')],
    ),
    (
        "Python client maps memory that can shrink",
        "client/python/tests/test_shared.py test_lies_are_refused[memory that can shrink]",
        [('client/python/millrace/_http/shm.py', '_GET_SEALS, _SEALS = 1034, 0x2 | 0x4 | 0x10', '_GET_SEALS, _SEALS = 1034, 0x4 | 0x10')],
    ),
    (
        "Python client accepts shared memory without comparing its checksum",
        "client/python/tests/test_shared.py test_other_bytes_than_the_checksum",
        [("client/python/millrace/_http/gateways.py", "            self._compare(head, g, table, data)\n", "")],
    ),
    (
        "Python client lets memory change under a forked child",
        "client/python/tests/test_shared_reads.py test_forks",
        [('client/python/millrace/_http/shm.py', '            _copy_in_place(memory)\n', '            pass\n')],
    ),
    (
        "Go client accepts damaged shared memory",
        "./client TestSharedMemoryLies",
        [('client/shared.go', 'held.data); got != b.CRC', 'held.data); got == 1')],
    ),
    (
        "C header never releases memory",
        "./client TestC",
        [('client/c/millrace_shared.h', '*m->release ? "Millrace-Release: " : "", m->release', '*m->release ? "Millrace-Kept: " : "", m->release')],
    ),
]
