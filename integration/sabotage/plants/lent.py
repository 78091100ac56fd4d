"""Planted bugs of memory that is lent to readers on the same machine."""

POOL = "internal/shared/pool.go"
LINUX = "internal/shared/memory_linux.go"
STREAM = "internal/shared/gather_amd64.s"
SHARED = "gateway/shared.go"
FRAMED = "./gateway TestSharedIsTheFramedForm"
BYTES = "./gateway TestBytesWhereMemoryIsNotAskedFor"

PLANTS = [
    ("memory that a reader holds is written again", "./internal/shared TestMemoryIsUsedAgainOnceItIsLetGo", [(POOL, "if one.state == free && one.purpose", "if one.state != filling && one.purpose")]),
    (
        "an old number lets go of a new lease",
        "./internal/shared TestMemoryIsUsedAgainOnceItIsLetGo",
        [(POOL, "slices.Contains(leases, s.lease)", "slices.Contains(leases, s.number)")],
    ),
    ("what is written for another principal is seen", "./internal/shared TestNobodyElseSeesIt", [(POOL, "one.purpose == purpose &&", "one.purpose.Dataset == purpose.Dataset && one.purpose.Rules == purpose.Rules &&")]),
    ("what is written for another dataset is seen", "./internal/shared TestNobodyElseSeesIt", [(POOL, "one.purpose == purpose &&", "one.purpose.Principal == purpose.Principal && one.purpose.Rules == purpose.Rules &&")]),
    ("what is written under other rules is seen", "./internal/shared TestNobodyElseSeesIt", [(POOL, "one.purpose == purpose &&", "one.purpose.Principal == purpose.Principal && one.purpose.Dataset == purpose.Dataset &&")]),
    (
        "what a reader keeps mapped after its connection is not counted",
        "./internal/shared TestWhatIsHeldCounts",
        [(POOL, "p.left = slices.DeleteFunc(p.left, func(s *segment) bool {\n\t\tif s.held() {", "p.left = slices.DeleteFunc(p.left, func(s *segment) bool {\n\t\tif false {")],
    ),
    ("a killed reader's memory stays lent while a child keeps its socket", "./internal/shared TestAReaderThatIsGoneHoldsNothing", [(POOL, "s.state == lent && !s.held() ||", "")]),
    ("idle memory stays", "./internal/shared TestIdleMemoryGoes", [(POOL, "s.state == free && now.Sub(s.since) > idleTime", "false")]),
    ("memory is lent beyond its share of the budget", "./internal/shared TestLimits", [(POOL, " && p.stats.Bytes+size <= p.most", "")]),
    ("a connection has any number of descriptors", "./internal/shared TestLimits", [(POOL, "len(l.segments) < mostOfConnection && ", "")]),
    ("descriptors are not bounded", "./internal/shared TestLimits", [(POOL, "p.stats.Segments < p.descriptors && ", "")]),
    ("a refusal keeps what was counted", "./internal/shared TestLimits", [(POOL, "\t\tp.stats.Segments--\n\t\tp.stats.Bytes -= size\n\t\tp.stats.Refused++", "\t\tp.stats.Refused++")]),
    ("memory goes while a batch is written to it", "./internal/shared TestWhatWasNotSentIsNotUsedAgain", [(POOL, "if s.state != filling { // else", "if true { // else")]),
    ("readers can write", "./internal/shared TestReadersCannotWrite", [(LINUX, " | unix.F_SEAL_FUTURE_WRITE", "")]),
    ("readers can shorten memory", "./internal/shared TestReadersCannotWrite", [(LINUX, "unix.F_SEAL_SHRINK | ", "")]),
    ("a streamed sample loses its last bytes", "./internal/shared TestGather", [(STREAM, "\tVMOVDQU Y4, -32(DI)(CX*1)\n", "")]),
    ("a streamed sample is written beyond its end", "./internal/shared TestStream", [(STREAM, "\tSHRQ $7, CX\n", "\tADDQ $127, CX\n\tSHRQ $7, CX\n")]),
    ("samples in memory begin with the table", FRAMED, [(SHARED, "Gather(lease.Bytes, samples.Fill(", "Gather(lease.Bytes, held.part.Fill(")]),
    ("the descriptor is closed before it is sent", FRAMED, [(SHARED, "\tif x.w.FlushError() != nil {", "\tif false {")]),
    ("leases are not let go", FRAMED, [("gateway/handler.go", "\t\tg.letGo(x)\n", "")]),
    ("memory is given to those who take any type", BYTES, [(SHARED, "!address.Names(x.accept(), body.SharedType)", "address.Quality(x.accept(), body.SharedType) == 0")]),
    ("a part of a batch is answered with all of it", BYTES, [("gateway/batch.go", "if status == http.StatusOK && g.lend(", "if g.lend(")]),
    ("small batches take memory", BYTES, [(SHARED, "if samples.Size() < leastShared {", "if samples.Size() < 1 {")]),
    ("a reader that cannot have memory gets no batch", "./gateway TestBytesWhereThereIsNoMemory", [(SHARED, "\tif !ok {\n\t\trelease()\n\t\treturn false\n\t}\n", "\tif !ok {\n\t\tpanic(http.ErrAbortHandler)\n\t}\n")]),
    (
        "readers with leases see what is written later",
        "./integration/sharedmemory TestReaders",
        [(POOL, "if one.state == free && one.purpose", "if one.state != filling && one.purpose")],
    ),
    (
        "a principal's memory is used for another",
        "./integration/sharedmemory TestReaders",
        [(POOL, "one.purpose == purpose &&", "")],
    ),
    (
        "what killed readers held is never given back",
        "./integration/sharedmemory TestReaders",
        [(POOL, "\t\tif s.held() {\n\t\t\treturn false\n\t\t}\n", "\t\tif s.ended != nil {\n\t\t\treturn false\n\t\t}\n")],
    ),
    (
        "a principal's processes hold more than its share",
        "./gateway/admission TestMemoryThatIsLent",
        [("gateway/admission/callers.go", "if *held+n > a.Memory && ", "if n > a.Memory && ")],
    ),
]
