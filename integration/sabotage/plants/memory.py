"""Memory: all of it is in one budget and is returned, and no input makes a process allocate more."""

PLANTS = [
    (
        "chunkcache evicts a chunk and keeps its bytes on the books",
        "./datapath/chunkcache TestConcurrentPrograms",
        [("datapath/chunkcache/cache.go", "\tc.stats.Bytes -= e.slot.class\n\tif c.debug {", "\tif c.debug {")],
    ),
    (
        "datapath keeps the memory of an extract",
        "./datapath TestNoCacheTooSmallReadsMuchMoreThanTheData",
        [("datapath/extract.go", "\te.room.close()\n", "")],
    ),
    (
        "datapath lets reads that wait for peers take all memory",
        "./datapath TestAskLimit_HalfOfMemory",
        [("datapath/owners.go", "if a.bytes.Acquire(ctx, n) != nil {", "if true {")],
    ),
    (
        "datapath keeps the leases of a batch that peers had a part in",
        "./integration/clustersim TestHistories",
        [("datapath/part.go", "\tif p.leases != nil {\n\t\tp.leases.Close()\n\t}\n", "")],
    ),
    (
        "datapath waits for memory before it loads the samples that others wait for",
        "./datapath TestBatchesOfMixturesDoNotWaitForEachOther",
        [("datapath/assembly.go", "if len(rest) > 0 { // batches that wait", "if false { // batches that wait")],
    ),
    (
        "gateway never returns the memory of a plan",
        "./gateway TestBodiesAreOnTheBooks",
        [("gateway/memory.go", "return nil, err\n\t}\n\treturn r.Release, nil", "return nil, err\n\t}\n\treturn func() { _ = r }, nil")],
    ),
    (
        "gateway keeps the chunks of slow readers in memory",
        "./integration TestSlowReadersLeaveRoomForOthers",
        [("gateway/batch.go", "\th.read.Settle()\n", "")],
    ),
    (
        "gateway accepts requests of any cost",
        "./integration TestDearestRequests",
        [("gateway/batch.go", "\tif work <= most {\n", "\tif work >= 0 {\n")],
    ),
    (
        "peer decodes queries without reserving memory",
        "./integration TestQuestionsArePaidFromTheBudget",
        [("cluster/peer/handler.go", "done, ok := s.reserve(times * n)", "done, ok := s.reserve(0 * times)")],
    ),
    (
        "Python client's buffers have no limit in bytes",
        "client/python/tests/test_pool.py test_buffers_hold_little_more_than_what_is_looked_at",
        [("client/python/millrace/_process.py", "if not any(other is f for f in free)][", "][")],
    ),
    (
        "codec decompresses a bomb to its end",
        "./chunkindex/codec TestReader_RejectsBombs",
        [("chunkindex/codec/reader.go", "if r.off-r.first > r.maxFrame {", "if r.off-r.first > 64*r.maxFrame {")],
    ),
]
