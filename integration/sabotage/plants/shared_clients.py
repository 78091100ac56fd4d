"""Planted bugs of readers in shared memory: the Go client, the header for C, the conformance kit."""

LOCALCONN, SHARED, UNIX, HEADER = "client/localconn.go", "client/shared.go", "client/unix.go", "client/c/millrace_shared.h"
LIES = "./client TestSharedMemoryLies"

PLANTS = [
    ("the Go client leaves descriptors of memory open", LIES, [(LOCALCONN, "\t\tcloseDescriptor(n.came)\n", "")]),
    ("the Go client takes memory that may shrink", LIES, [("client/localconn_linux.go", "seals&wantSeals != wantSeals", "seals&wantSeals == 0")]),
    ("the Go client maps more than there is", LIES, [("client/localconn_linux.go", "is.Size != size ||", "")]),
    ("the Go client takes damaged memory", LIES, [(SHARED, "held.data); got != b.CRC", "held.data); got == 1")]),
    ("the Go client keeps memory of an answer that it refuses", LIES, [(SHARED, "\t\t\theld.end()\n", "")]),
    ("the Go client does not say that it has let go", "./client TestSharedMemoryIsLetGo", [(LOCALCONN, "\t\t\tn.released = append(n.released, l.number)\n", "\t\t\t_ = l.number\n")]),
    ("the Go client keeps memory mapped that is gone", "./client TestSharedMemoryIsLetGo", [(LOCALCONN, "at.gone = true; !at.lent {", "at.gone = true; false {")]),
    ("the Go client has two batches in the same memory", "./client TestSharedMemoryIsHeldByOneBatch", [(LOCALCONN, "case known && at.lent:", "case false:")]),
    ("a batch of the Go client ends with its connection", "./client TestSharedMemoryIsHeldByOneBatch", [(LOCALCONN, "at.gone = true; !at.lent {", "at.gone = true; true {")]),
    ("the Go client holds what was read ahead in vain", "./client TestSharedMemoryOfThoseWhoForget", [("client/batches.go", "\t\t\t\tr.batch.Close()\n", "\t\t\t\t_ = r.batch\n")]),
    ("the Go client uses a batch that is closed", "./client TestSharedMemoryStays", [(SHARED, "\t\tb.frame, b.data = nil, nil\n", "")]),
    ("the Go client connects to a link in a socket's place", "./client TestSocketOfSomebodyElse", [(UNIX, "os.Lstat(path)", "os.Stat(path)")]),
    ("the Go client connects to anybody's socket", "./client TestSocketOfSomebodyElse", [(UNIX, "|| owner == 0 ||", "|| true ||")]),
    ("the Go client looks for parts outside of a sample", "./client TestFramedLies", [("client/framed.go", " || uint64(p.at)+uint64(p.length) > uint64(lengths[i])", "")]),
    ("the header for C takes memory that may shrink", "./client TestCLies", [(HEADER, "(sealed & seals) != seals", "(sealed & seals) == 0")]),
    ("the header for C believes lengths of samples", "./client TestCLies", [(HEADER, "if (sum != b->bytes)", "if (sum == 1)")]),
    ("the header for C does not let go", "./client TestC", [(HEADER, "*m->release ? \"Millrace-Release: \" : \"\", m->release", "*m->release ? \"Millrace-Kept: \" : \"\", m->release")]),
    ("the kit's reader may write to memory", "conformance shared memory", [("internal/shared/memory_linux.go", " | unix.F_SEAL_FUTURE_WRITE", "")]),
    ("the kit's reader loses what it holds", "conformance shared memory", [("internal/shared/pool.go", "if one.state == free && one.purpose", "if one.state != filling && one.purpose")]),
]
