"""Planted bugs of sources that are closed: what of them is forgotten."""

EVERYTHING = "./datapath TestCloseLetsGoOfEverything"
HOT = "./datapath TestCloseDropsHotSamples"
CLOSE = "datapath/close.go"

PLANTS = [
    ("a closed source stays among the open ones", EVERYTHING, [(CLOSE, "return o == s })\n\tp.mu.Unlock()", "return false })\n\tp.mu.Unlock()")]),
    ("a closed source leaves its readers", EVERYTHING, [(CLOSE, "\tp.readers.Drop(s)\n", "")]),
    (
        "a dataset that is dropped leaves its ranks",
        "./datapath/lookahead TestDropForgetsADataSet",
        [("datapath/lookahead/readers.go", "if k.Dataset == d {", "if false {")],
    ),
    (
        "a dataset that is dropped leaves epochs to prepare",
        "./datapath/lookahead TestDropForgetsADataSet",
        [("datapath/lookahead/readers.go", "func(x *reader) bool { return x.dataset == d })", "func(x *reader) bool { return false })")],
    ),
    ("a closed source leaves its chunks", EVERYTHING, [(CLOSE, "\tp.cache.Close(s.chunks)\n", "")]),
    ("a closed source leaves its hot samples", HOT, [(CLOSE, "\tp.hot.forget(s)\n", "")]),
    ("a slab of hot samples of two sources is lost with one of them", HOT, [("datapath/hot.go", "kept = append(kept, b)\n\t\t\tcontinue", "continue")]),
    ("a closed index leaves its tables", EVERYTHING, [("chunkindex/index.go", "\tif x.tables != nil {\n\t\tx.tables.Close()\n\t}\n", "")]),
    (
        "a closed source leaves the runs of its ranks",
        "./datapath TestCloseForgetsRanks",
        [(CLOSE, "p.ahead.forget(func(r *rank) bool { return r.source == s })", "p.ahead.forget(func(*rank) bool { return false })")],
    ),
    (
        "a closed source leaves its memory to decode in",
        "./datapath TestCloseGivesMemoryToDecodeInBack",
        [(CLOSE, "\tp.sizeDecoding()\n", "")],
    ),
    (
        "memory to decode in that a batch has in use is not fitted afterwards",
        "./datapath TestCloseGivesMemoryToDecodeInBack",
        [("datapath/memory.go", "\td.kept <- d.fitted(kept, d.size.Load())\n\td.fit()", "\td.kept <- kept\n\t_ = 0")],
    ),
    (
        "an evicted chunk holds the tables that have found it",
        "./datapath/chunkcache TestAnEvictedChunkHoldsNoTable",
        [("datapath/chunkcache/table.go", "\te.places = nil\n", "")],
    ),
    (
        "a load that all have left brings its chunk back to a table that is closed",
        "./datapath/chunkcache TestATableIsClosed",
        [("datapath/chunkcache/table.go", "return p.table.closed })", "return false })")],
    ),
    (
        "a table is closed while its loads are under way",
        "./datapath/chunkcache TestATableIsClosed",
        [("datapath/chunkcache/table.go", "\tt.loads.Wait()\n", "")],
    ),
    (
        "a table that is closed takes chunks from others",
        "./datapath/chunkcache TestATableIsClosed",
        [("datapath/chunkcache/table.go", "\tif e.places = others; len(others) > 0 {\n\t\treturn nil\n\t}\n", "\te.places = others\n")],
    ),
    (
        "a generation that is closed takes its chunks from the next one",
        "./datapath TestClosedGenerationLeavesItsChunksToTheNextOne",
        [(CLOSE, "\t\tif chunks[s.key(i)] {", "\t\tif false {")],
    ),
    (
        "files of a generation that is closed are of nobody",
        "./datapath TestClosedGenerationLeavesItsChunksToTheNextOne",
        [(CLOSE, "if onDisk && files[s.diskKey(i)] {", "if false {")],
    ),
    (
        "files of a source that is closed stay that source's",
        "./datapath TestClosedGenerationLeavesItsChunksToTheNextOne",
        [("datapath/diskcache/cache.go", "\t\te.ref = unowned\n\t\tc.entries[n] = e\n\t}\n\treturn ok", "\t}\n\treturn ok")],
    ),
    (
        "a source is closed while it is in use",
        "./datapath TestCloseWaitsForOthers",
        [(CLOSE, "\tif s.uses.open.Add(closed) != closed {\n\t\t<-s.uses.ended\n\t}\n", "\ts.uses.open.Add(closed)\n")],
    ),
    (
        "a source is closed under a body that is sent",
        "./datapath TestCloseWaitsForOthers",
        [(CLOSE, "\tbody.OnClose(leave)\n", "\tleave()\n")],
    ),
    (
        "reads go on for a source that is to be closed",
        "./datapath TestCloseEndsWhatIsUnderWay",
        [(CLOSE, "\ts.uses.end(ErrClosed)\n", "")],
    ),
    (
        "reads ahead go on for a source that is to be closed",
        "./datapath TestCloseEndsWhatIsUnderWay",
        [("datapath/prefetch.go", "read, cancel := f.source.until(ctx)", "read, cancel := context.WithCancel(ctx)")],
    ),
    (
        "warming goes on for a source that is to be closed",
        "./datapath TestCloseEndsWhatIsUnderWay",
        [("datapath/warm.go", "ctx, end := s.until(ctx)", "ctx, end := context.WithCancel(ctx)")],
    ),
    (
        "an answer to a peer goes on for a source that is to be closed",
        "./datapath TestCloseEndsWhatIsUnderWay",
        [("datapath/answer.go", "ctx, end := s.until(ctx)", "ctx, end := context.WithCancel(ctx)")],
    ),
    (
        "a source that is closed is read from",
        "./datapath TestCallsAfterClose",
        [("datapath/source.go", "\tif !s.enter() {\n\t\treturn nil, ErrClosed\n\t}\n", "")],
    ),
    (
        "a source that is closed is warmed",
        "./datapath TestCallsAfterClose",
        [("datapath/warm.go", "\tif !s.enter() {\n\t\treturn batch.Warmed{}, ErrClosed\n\t}\n", "")],
    ),
    (
        "a mixture that cannot be read keeps its other sources from being closed",
        "./datapath TestCallsAfterClose",
        [("datapath/mixture.go", "leaveAll(m.parts[:i])\n", "leaveAll(m.parts[:0*i])\n")],
    ),
    (
        "a read that fails keeps its source from being closed",
        "./datapath TestCloseAfterFailures",
        [(CLOSE, "\tif err != nil {\n\t\tleave()\n\t\treturn nil, err\n\t}\n\tbody", "\tif err != nil {\n\t\treturn nil, err\n\t}\n\tbody")],
    ),
    (
        "a chunk of a source that is closed is taken for one of another source",
        "./datapath TestCallsAfterClose",
        [("datapath/disk.go", "if !ok || !p.open[i].enter() {", "if i = min(i, len(p.open)-1); !p.open[i].enter() || false && ok {")],
    ),
]
