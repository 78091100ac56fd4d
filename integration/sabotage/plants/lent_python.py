"""Planted bugs of the Python client's readers of lent memory."""

SHARED = "client/python/millrace/_http/shm.py"
LIES = "client/python/tests/test_shared.py test_lies_are_refused"
KEPT = "client/python/tests/test_shared.py test_memory_is_lent_again_only_when_nobody_looks"
FORKS = "client/python/tests/test_shared_reads.py test_forks"

PLANTS = [
    ("Python lets go of memory that it looks at", KEPT, [(SHARED, "for lease, segment in self._lent.items() if is_free(self._mapped[segment])]", "for lease, segment in self._lent.items()]")]),
    ("Python never lets go of memory", KEPT, [("client/python/millrace/_http/wire.py", "    if not leases:\n        return request\n", "    if leases:\n        return request\n")]),
    ("Python maps memory that can shrink", LIES + "[memory that can shrink]", [(SHARED, "_GET_SEALS, _SEALS = 1034, 0x2 | 0x4 | 0x10", "_GET_SEALS, _SEALS = 1034, 0x4 | 0x10")]),
    ("Python maps memory of another length", LIES + "[longer memory]", [(SHARED, "    if is_.st_size != size:\n", "    if is_.st_size < size:\n")]),
    ("Python leaves descriptors open that it refuses", LIES + "[many descriptors]", [(SHARED, "            for descriptor in came:\n                os.close(descriptor)\n", "            del came[:1]\n")]),
    ("Python takes samples of another length than the table's", LIES + "[shorter than the table says]", [(SHARED, " or length != table:", ":")]),
    ("Python goes on with a connection that has lied", LIES + "[a short table]", [("client/python/millrace/_http/gateways.py", "r.sock.segments.spoiled = True", "pass")]),
    (
        "Python takes memory that it still looks at",
        "client/python/tests/test_shared.py test_a_gateway_that_lends_what_is_held_is_refused",
        [(SHARED, " or segment in self._lent.values():", ":")],
    ),
    (
        "Python keeps memory mapped that is gone",
        "client/python/tests/test_shared.py test_memory_that_is_gone_stays_for_its_views",
        [(SHARED, "                _close(self._mapped.pop(number, None))\n", "                pass\n")],
    ),
    (
        "Python refuses what a later gateway adds",
        "client/python/tests/test_shared.py test_what_a_reader_does_not_know_is_ignored",
        [(SHARED, "(?:;(?:{_TEXT}|[^\",])*)?[ \\t]*(?:,|$)", "[ \\t]*(?:,|$)")],
    ),
    (
        "Python asks for the rest of a table that broke off",
        "client/python/tests/test_shared.py test_replies_that_end_early",
        [("client/python/millrace/_http/gateways.py", " or self._head.content_type == shm.MEDIA_TYPE:", ":")],
    ),
    (
        "Python takes memory without its checksum",
        "client/python/tests/test_shared.py test_other_bytes_than_the_checksum",
        [("client/python/millrace/_http/gateways.py", "            self._compare(head, g, table, data)\n", "")],
    ),
    (
        "Python closes a batch that is looked at",
        "client/python/tests/test_shared.py test_close",
        [("client/python/millrace/batch.py", "isinstance(memory, mmap.mmap) and not is_free(memory)", "isinstance(memory, int)")],
    ),
    (
        "Python trusts a link in a socket's place",
        "client/python/tests/test_shared.py test_sockets_that_others_can_have_put_there",
        [("client/python/millrace/_http/fleet.py", "is_, directory = os.lstat(path),", "is_, directory = os.stat(path),")],
    ),
    (
        "Python trusts another user's socket",
        "client/python/tests/test_shared.py test_sockets_that_others_can_have_put_there",
        [("client/python/millrace/_http/fleet.py", "is_.st_uid not in (0, os.geteuid())", "is_.st_uid < 0")],
    ),
    ("what a forked child sees changes", FORKS, [(SHARED, "            _copy_in_place(memory)\n", "            pass\n")]),
    (
        "a process that has forked goes on with its connections",
        "client/python/tests/test_shared.py test_a_process_that_forks_makes_new_connections",
        [("client/python/millrace/_http/wire.py", " and not _refuses(sock):", ":")],
    ),
    (
        "a child sees memory after a fork that Python does not",
        "client/python/tests/test_shared_reads.py test_a_fork_that_python_does_not_see",
        [(SHARED, "    memory.madvise(mmap.MADV_DONTFORK)", "    pass")],
    ),
    (
        "a function of torch's dataset is given lent memory to write into",
        "client/python/tests/torch/test_torch_shared.py test_who_sees_the_memory",
        [("client/python/millrace/epoch.py", ", writable=self.writable)", ")")],
    ),
    (
        "samples by number never come as memory where functions are given",
        "client/python/tests/torch/test_torch_shared.py test_samples_by_number",
        [("client/python/millrace/torch/_map.py", "writable=copy and ", "writable=")],
    ),
    (
        "a batch that waits for the trainer holds its bytes beside its columns",
        "client/python/tests/torch/test_torch_shared.py test_a_batch_that_waits_holds_its_columns_alone",
        [("client/python/millrace/torch/_columns.py", "    batch.let_go()\n", "")],
    ),
]
