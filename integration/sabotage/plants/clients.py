"""Planted bugs of the clients."""

PLANTS = [
    (
        "the client looks for samples of a tar without what pads its members",
        ["./client"],
        [("client/places.go", "padding = min(-s.Length&(tarBlock-1), int64(len(left))-head-s.Length)", "padding = 0")],
    ),
    (
        "client does not compare the checksum",
        ["./client"],
        [("client/transfer.go", "; got != b.CRC {", "; got != got {")],
    ),
    (
        "client's ledger does not see a sample come twice",
        ["./client"],
        [("client/ledger.go", "if _, ok := l.keys[id]; ok {", "if _, ok := l.keys[id]; ok && l.samples == 0 {"),
         ("client/ledger.go", "if p[word]&bit != 0 {", "if p[word]&bit != 0 && l.samples == 0 {")],
    ),
    (
        "client reads a body that broke from its beginning",
        ["./client"],
        [("client/transfer.go", "if len(t.data) == 0 {", "if len(t.data) >= 0 {")],
    ),
    (
        "client asks a gateway again at once that has just failed",
        ["./client"],
        [("client/gateways.go", "g.until = now.Add(max(cooldown", "g.faults, g.until = 0, now.Add(-max(cooldown")],
    ),
    (
        "client takes a gateway back for answering small questions",
        ["./client"],
        [("client/near.go", "if !time.Now().Before(g.until) {", "if g != nil {")],
    ),
    (
        "client waits for a name server while gateways answer",
        ["./client"],
        [("client/names.go", "time.AfterFunc(renewTime-", "time.AfterFunc(lookupTime-")],
    ),
    (
        "the Python client takes a body that ends early",
        ["python:test_faults.py"],
        [("client/python/millrace/_transfer.py", 'raise ConnectionError("the connection was closed")', "break")],
    ),
    (
        "the Python client goes on with a body of whatever ETag",
        ["python:test_faults.py"],
        [("client/python/millrace/_transfer.py", '-", "If-Range": self._etag}', '-"}')],
    ),
    (
        "the Python client reads into a buffer that somebody looks at",
        ["python:test_pool.py"],
        [("client/python/millrace/_arena.py", " and _free(b):", ":")],
    ),
    (
        "the Python client's buffers are not bounded in bytes",
        ["python:test_pool.py"],
        [("client/python/millrace/_arena.py", "self._known + len(b) > self._room + 2 * len(b) or ", "")],
    ),
    (
        "the Python client counts the time in which its process stood still",
        ["python:test_faults.py"],
        [("client/python/millrace/_clock.py", "self._still += now - self._due", "pass")],
    ),
    (
        "the Python client counts the time in which its process stood still before it asked again",
        ["python:test_faults.py"],
        [("client/python/millrace/_core.py", "with here.wire.counting():", "if here.wire:")],
    ),
    (
        "the Python client ends an attempt over TLS by reading on without TLS",
        ["python:test_ends.py"],
        [("client/python/millrace/_wire.py", "socket.socket.shutdown(sock, socket.SHUT_RDWR)", "sock.shutdown(socket.SHUT_RDWR)")],
    ),
    (
        "the Python client wakes no thread when a length that came makes room",
        ["python:test_pool.py"],
        [("client/python/millrace/_pool.py", "slot.reserved = size\n            self._wake_another()", "slot.reserved = size")],
    ),
    (
        "of the Python client's threads only one wakes up when there is room for several",
        ["python:test_pool.py"],
        [("client/python/millrace/_pool.py", "if self._choose()[0] >= 0:", "if False:")],
    ),
    (
        "the Python client takes a transform's StopIteration for the end of the epoch",
        ["python:test_hostile.py"],
        [("client/python/millrace/_pool.py", "if isinstance(slot.error, StopIteration):", "if False:")],
    ),
    (
        "the Python client takes an interim answer for the answer",
        ["python:test_hostile.py"],
        [("client/python/millrace/_wire.py", "if not 100 <= status < 200:", "if True:")],
    ),
    (
        "the Python client pins no generation",
        ["python:test_faults.py"],
        [("client/python/millrace/client.py", 'if k not in ("format", "fields", "table")}', 'if k not in ("format", "fields", "table", "generation")}'),
         ("client/python/millrace/client.py", 'generation=said["generation"]', 'generation=d["parameters"]["generation"]')],
    ),
    (
        "the Python client's ledger overlooks what came twice",
        ["python:test_read.py"],
        [("client/python/millrace/ledger.py", "self._twice.append((a, min(b, end)))", "pass")],
    ),
    (
        "the Python client's threads wait for a decoder while nothing is fetched",
        ["python:test_pool.py"],
        [("client/python/millrace/_pool.py", "if can_fetch and not self._fetching:", "if can_fetch and not self._fetching and not self._slots:")],
    ),
    (
        "torch's workers count on from the batch that they have yielded, as if each were alone",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "self._next = batch.number + self._step", "self._next = batch.number + 1")],
    ),
    (
        "torch's spawned workers do not know their parent's rank",
        ["python:torch/test_torch_distributed.py"],
        [("client/python/millrace/torch.py", '"_ranks_of_parent": self.ranks()', '"_ranks_of_parent": None')],
    ),
    (
        "torch's loader says that what it read ahead was yielded",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "self._count.place = epoch, number + 1", "self._count.place = epoch, number + 2")],
    ),
    (
        "torch's dataset goes on from a state of another order",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "            self._check(epoch)\n", "")],
    ),
    (
        "torch's loader leaves a failed pass's workers to the garbage collector",
        ["python:torch/test_torch_loader.py"],
        [("client/python/millrace/torch.py", "        if end is not None:\n            end()\n", "")],
    ),
    (
        "the client of the page takes a damaged body",
        "conformance client python",
        [("conformance/clients/stdlib.py", "if crc32c(body) == int(", "if crc32c(body) != 0 or int(")],
    ),
    (
        "the client of the page appends a whole body to a part of it",
        "conformance client node",
        [("conformance/clients/reader.mjs", "(chunks = []), (have = 0), (size = ", "(size = ")],
    ),
]
