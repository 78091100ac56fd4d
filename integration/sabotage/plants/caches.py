"""Planted bugs of the caches in memory and on disk, and of what is kept for whom."""

PLANTS = [
    (
        "chunkcache keeps a chunk whose load failed",
        "./datapath/chunkcache TestConcurrentPrograms",
        [("datapath/chunkcache/load.go", "if err == nil && !other {", "if !other {")],
    ),
    (
        "chunkcache lets a load end with its first waiter",
        "./datapath/chunkcache TestLoadEndsWithItsLastWaiter",
        [("datapath/chunkcache/cache.go", "if e.refs--; e.refs == 0 && !f.settled {", "if e.refs--; !f.settled {")],
    ),
    (
        "chunkcache counts one lease too few for the waiters of a load",
        "./datapath/chunkcache TestConcurrentPrograms",
        [("datapath/chunkcache/load.go", "\te.load.Store(nil)\n", "\te.load.Store(nil)\n\te.refs = max(e.refs-1, 0)\n")],
    ),
    (
        "chunkcache drops a chunk and keeps its bytes on the books",
        "./datapath/chunkcache TestConcurrentPrograms",
        [("datapath/chunkcache/cache.go", "\tc.stats.Bytes -= e.slot.class\n\tif c.debug {", "\tif c.debug {")],
    ),
    (
        "a lease closed lets a chunk go that others still hold",
        "./datapath/chunkcache TestConcurrentPrograms",
        [("datapath/chunkcache/idle.go", "if e.refs > 0 {\n\t\treturn false", "if e.refs > 1 {\n\t\treturn false")],
    ),
    (
        "of equal chunks the one idle for the shortest time goes first",
        "./datapath/chunkcache TestTheLeastRecentlyUsedGoesFirst",
        [("datapath/chunkcache/idle.go", "e.place < o.place", "e.place > o.place")],
    ),
    (
        "a chunk goes by when it was due when it was asked last",
        "./datapath/chunkcache TestRunnersUpAreAskedAgain",
        [("datapath/chunkcache/idle.go", "\t\t\t\tl.ask(e)\n", "\t\t\t\tl.note(e, e.due)\n")],
    ),
    (
        "the chunks idle last are not asked",
        "./datapath/simulate TestPoliciesMeetTheirBounds",
        [("datapath/chunkcache/idle.go", "if l.ask(e) > Soon {", "if e != nil {")],
    ),
    (
        "a chunk goes for one that is due later",
        "./datapath/chunkcache TestAChunkGoesForOneDueSooner",
        [("datapath/chunkcache/idle.go", "e.due > due || e.due == Never {", "e.due >= due || e.due == Never {")],
    ),
    (
        "a chunk whose reader has gone stays among those that readers come for",
        "./datapath/chunkcache TestShelfKeepsWhatIsWantedSoon",
        [("datapath/chunkcache/idle.go", "if l.next(e, Soon) > Soon {", "if l.next(e, Soon) < 0 {")],
    ),
    (
        "chunks go for a request that does not fit all the same",
        "./datapath/chunkcache TestShelfEvictsEnoughOrNothing",
        [("datapath/chunkcache/shelf.go", "\t\t\ts.idle.add(e)\n\t\t}\n\t\treturn 0\n", "\t\t\ts.idle.add(e)\n\t\t}\n")],
    ),
    (
        "a table finds chunks that have gone",
        "./datapath/chunkcache TestATableFindsWhatIsThere",
        [("datapath/chunkcache/table.go", "p.table.chunks[p.chunk].CompareAndSwap(e, nil)", "_ = p.table.chunks[p.chunk].Load()")],
    ),
    (
        "a chunk that another table brought is brought again",
        "./datapath/chunkcache TestChunksOfOneKeyAreOne",
        [("datapath/chunkcache/table.go", "\te := c.entries[of.Key]\n\tif e != nil {", "\te := c.entries[of.Key]\n\tif e != nil && e.resident() {\n\t\treturn nil, of\n\t}\n\tif e != nil {")],
    ),
    (
        "a chunk is due when the readers of its first name come",
        "./datapath/chunkcache TestChunksOfOneKeyAreOne",
        [("datapath/chunkcache/table.go", "range e.places[:min(len(e.places), names)]", "range e.places[:min(len(e.places), 1)]")],
    ),
    (
        "a data set does not hear of a chunk whose load failed",
        "./datapath/chunkcache TestChunksOfOneKeyAreOne",
        [("datapath/chunkcache/load.go", "\t\te.gone()\n", "\t\te.lost()\n")],
    ),
    (
        "who waits for memory does not look for a free slot",
        "./datapath/chunkcache TestWhoWaitsTakesAFreeSlot",
        [("datapath/chunkcache/buffer.go", "\t\ts = c.takeFree(class)\n", "\t\tif c.budget.Waiting() == 0 {\n\t\t\ts = c.takeFree(class)\n\t\t}\n")],
    ),
    (
        "each slot is a mapping of its own",
        "./datapath/chunkcache TestSlotsGivenBackLeaveFewMappings",
        [("datapath/chunkcache/arena.go", "\tdiscard(p.bytes())\n", "\t_ = unix.Mprotect(p.bytes(), unix.PROT_READ)\n")],
    ),
    (
        "a slot made of others' bytes leaves them their memory",
        "./datapath/chunkcache TestSlotsOfOtherClassesGiveTheirMemory",
        [("datapath/chunkcache/slot.go", "\t\told.clear()\n", "\t\t_ = old\n")],
    ),
    (
        "budget grants one byte more than there is",
        "./internal/budget TestBudgetAgainstModel",
        [("internal/budget/budget.go", "n > b.total-b.inUse ||", "n > b.total-b.inUse+1 ||")],
    ),
    (
        "diskcache does not compare the checksum of what it reads",
        "./datapath/diskcache TestNoFlippedBitIsServed",
        [("datapath/diskcache/read.go", "if sum != p.CRC32C {", "if false {")],
    ),
    (
        "diskcache does not compare the footer's key",
        "./datapath/diskcache TestFileOfAnotherKeyIsNotServed",
        [("datapath/diskcache/read.go", "err != nil || got != key {", "err != nil || got.Length != key.Length {")],
    ),
    (
        "diskcache keeps what a kill left half written",
        "./datapath/diskcache TestStraysAreRemovedAtStart",
        [("datapath/diskcache/scan.go", "_ = c.disk.remove(path.Join(chunkDir, sub, d.Name()))", "")],
    ),
    (
        "diskcache gives a file its name before it is whole",
        "./datapath/diskcache TestFileIsNamedLast",
        [
            ("datapath/diskcache/write.go", "c.disk.write(temp, func", "c.disk.write(n.file(), func"),
            ("datapath/diskcache/write.go", "err = c.disk.rename(temp, n.file()); err != nil {", "err != nil {"),
        ],
    ),
    (
        "diskcache renames a file that is not on the medium",
        "./datapath/diskcache TestFileIsNamedLast",
        [("datapath/diskcache/disk.go", "if err := d.do(stepSync, name, f.Sync); err != nil {", "if err != nil {")],
    ),
    (
        "diskcache writes over what is needed as soon",
        "./datapath/diskcache TestAdmissionByPlan",
        [("datapath/diskcache/admit.go", "(there == Never || there/2 >= coming)", "(there == Never || there >= 0)")],
    ),
    (
        "diskcache keeps the room of a write that failed",
        "./datapath/diskcache TestWritesStepAsideAndComeBack",
        [("datapath/diskcache/write.go", "\t\tc.bytes -= e.size\n", "")],
    ),
    (
        "diskcache goes on writing to a full disk",
        "./datapath/diskcache TestWritesStepAsideAndComeBack",
        [("datapath/diskcache/call.go", "writeErrors = 1\n", "writeErrors = 1000\n")],
    ),
    (
        "diskcache loses what it cannot remove",
        "./datapath/diskcache TestFileThatStaysIsPassedOver",
        [("datapath/diskcache/evict.go", "e.dead, e.stays = wrong, true", "e.dead, e.stays = true, true")],
    ),
    (
        "diskcache tries for ever to remove what stays",
        "./datapath/diskcache TestFileThatStaysIsPassedOver",
        [("datapath/diskcache/evict.go", "e.dead, e.stays = wrong, true", "e.dead = wrong")],
    ),
    (
        "diskcache runs into a file system that others have filled",
        "./datapath/diskcache TestDiskThatOthersFill",
        [("datapath/diskcache/admit.go", "\treturn wanted - free\n", "\treturn 0\n")],
    ),
    (
        "diskcache looks at too few chunks for one that may go",
        "./datapath/diskcache TestVictimsAmongMany",
        [("datapath/diskcache/admit.go", "lookedAt = 32", "lookedAt = 1")],
    ),
    (
        "diskcache looks at too few chunks for one in the place of many",
        "./datapath/diskcache TestVictimsAmongMany",
        [("datapath/diskcache/admit.go", "len(seen) >= lookedAt && bytes >= lookedBytes*n", "len(seen) >= lookedAt")],
    ),
    (
        "what fails again right after a pause is tried as soon as the first time",
        "./internal/pause TestPauses",
        [("internal/pause/pause.go", "max(min(2*t.pause, l.rule.Longest), l.rule.First)", "l.rule.First")],
    ),
    (
        "a success that began before a pause ends it",
        "./internal/pause TestPauses",
        [("internal/pause/pause.go", "t.pause > 0 && !now.Before(t.until)", "t.pause > 0")],
    ),
    (
        "failures that are too old to matter are never forgotten",
        "./internal/pause TestOldFailuresAreForgotten",
        [("internal/pause/pause.go", "if len(l.known) < l.sweep {", "if len(l.known) >= 0 {")],
    ),
    (
        "diskcache takes any marked directory",
        "./datapath/diskcache TestForeignDirectoriesAreRefused",
        [("datapath/diskcache/marker.go", "if len(m.Datasets) > 0 && len(c.cfg.Datasets) > 0 && !common {", "if len(m.Datasets) > 1000 && !common {")],
    ),
    (
        "lookahead takes every reader for one in a hurry",
        "./datapath/lookahead TestDeadlinesFollowDemand",
        [("datapath/lookahead/reader.go", "\treturn d.samples / d.seconds\n", "\treturn quick\n")],
    ),
    (
        "lookahead measures demand by progress, so that who waits gets less",
        "./datapath/lookahead TestDeadlinesFollowDemand",
        [("datapath/lookahead/ranks.go", "thought = max(now.Sub(k.done), 0)", "thought = now.Sub(k.seen)")],
    ),
    (
        "lookahead asks the first reader only when a chunk is needed next",
        "./datapath/lookahead TestDueIsWhenTheFirstReaderComes",
        [("datapath/lookahead/due.go", "\tc.Due = min(c.Due, due)\n", "\tif c.Due == Never {\n\t\tc.Due = due\n\t}\n")],
    ),
    (
        "lookahead takes the first reader that comes at all for one that comes early enough",
        "./datapath/lookahead TestFirstTellsWhatIsLaterThanEnough",
        [("datapath/lookahead/due.go", "\t\tif !c.later(enough) {", "\t\tif c.Due < Never {")],
    ),
    (
        "a chunk goes though it is only known to be due later than enough",
        "./datapath/chunkcache TestOfTheOthersItIsEnoughToKnowThatTheyAreDueSooner",
        [("datapath/chunkcache/idle.go", "return l.runners[0].due - 1\n", "return l.runners[0].due + 1000\n")],
    ),
    (
        "lookahead thinks that what only the next epoch needs is needed at once",
        "./datapath/lookahead TestWhatStaysComesEvenly",
        [("datapath/lookahead/due.go", "max(s.total+s.own(chunk), s.first+s.soon)", "s.own(chunk)")],
    ),
    (
        "lookahead does not expect all chunks of a window of which memory has no room for some",
        "./datapath/lookahead TestWhatIsMissingIsExpected",
        [("datapath/lookahead/missing.go", "x.uses[x.soon-1].start+1)", "x.uses[x.soon-1].start)")],
    ),
    (
        "lookahead does not expect what the next epoch begins with and a rank may still need in this one",
        "./datapath/lookahead TestWhatIsMissingIsExpected",
        [("datapath/lookahead/due.go", "\t\tu = s.use(chunk, s.first)\n", "\t\tu.start = s.first + s.soon\n")],
    ),
    (
        "lookahead forgets what a straggler is going to need",
        "./datapath/lookahead TestStragglerKeepsItsChunks",
        [("datapath/lookahead/reader.go", "max(behindBatches*x.at.BatchSize, x.lag+x.at.BatchSize)", "behindBatches*x.at.BatchSize")],
    ),
    (
        "lookahead lets each newcomer drive out another reader",
        "./datapath/lookahead TestWhoMakesRoomForANewReader",
        [("datapath/lookahead/table.go", "idle := x.state == announced || x.reading == 0 && now.Sub(x.seen) > readerNew", "idle := true")],
    ),
    (
        "lookahead leaves the cursor as it is though a batch needs more",
        "./datapath/lookahead TestCursorStandsAtTheFirstMissingChunk",
        [("datapath/lookahead/table.go", "\tr.look(x)\n", "\tif len(x.uses) == 0 {\n\t\tr.look(x)\n\t}\n")],
    ),
    (
        "lookahead leaves the cursor where it is though a chunk is lost",
        "./datapath/lookahead TestCursorStandsAtTheFirstMissingChunk",
        [("datapath/lookahead/missing.go", "lost := r.lost.Swap(false)", "lost := false")],
    ),
    (
        "lookahead moves the cursor past what is missing",
        "./datapath/lookahead TestCursorStandsAtTheFirstMissingChunk",
        [("datapath/lookahead/missing.go", "\t\tx.tried = x.found\n", "\t\tx.found = x.tried\n")],
    ),
    (
        "datapath lets readers throw each other's chunks out",
        "./datapath TestReadersLeaveEachOtherTheirChunks",
        [("datapath/chunkcache/idle.go", "const muchLater = 4\n", "const muchLater = 1\n")],
    ),
    (
        "datapath does not tell the queue that a chunk has gone",
        "./datapath TestWhatIsNeededSoonIsFetchedAgain",
        [("datapath/eviction.go", "\tif soon {\n", "\tif false {\n")],
    ),
    (
        "lookahead comes for chunks that other gateways keep",
        "./datapath/lookahead TestOnlyWhatIsKeptHereIsLookedAheadFor",
        [("datapath/lookahead/missing.go", "if r.mine(x.dataset, x.at.Plan, x.groups, span.Chunk) {", "if true {")],
    ),
    (
        "lookahead keeps what it looked for when the owners change",
        "./datapath/lookahead TestReownedReadersComeForOtherChunks",
        [("datapath/lookahead/readers.go", "\t\tx.forgetUses()\n\t\tr.stand(x)\n", "\t\tr.stand(x)\n")],
    ),
    (
        "lookahead takes readers elsewhere for readers in a hurry",
        "./datapath/lookahead TestRanksHereAndElsewhereAreOneReader",
        [("datapath/lookahead/readers.go", "\t\tx.thought(k, now)\n\t}\n\tr.stand(x)\n}\n\n// Reowned", "\t}\n\tr.stand(x)\n}\n\n// Reowned")],
    ),
    (
        "chunkcache loses the memory that a load had beside its chunk",
        "./datapath/chunkcache TestALoadsMemoryBesideItsChunk",
        [("datapath/chunkcache/load.go", "\t\tc.putFree(f.beside)\n", "")],
    ),
    (
        "budget empties the cache for a reservation that fails all the same",
        "./internal/budget TestNothingIsReclaimedInVain",
        [("internal/budget/budget.go", "|| !mayReclaim || h.idle() < missing {", "|| !mayReclaim || h.idle() < 0 {")],
    ),
    (
        "lookahead brings what is at home with ranks that read at other gateways",
        "./integration TestPlainGatewaysReadTheStoreOnce/4_ranks",
        [("datapath/lookahead/readers.go", "return g.comeFor(p, chunk) && (", "return (")],
    ),
    (
        "lookahead forgets that a group of ranks reads elsewhere now",
        "./datapath/lookahead TestOnlyWhatIsAtHomeIsLookedAheadFor",
        [("datapath/lookahead/homes.go", "delete(x.here, o)\n", "_ = o\n")],
    ),
    (
        "the cache copies a chunk for each of many who hold it",
        "./datapath/chunkcache TestLeasesAreSwappedForCopies",
        [("datapath/chunkcache/lease.go", "Cost(n)*int64(e.refs) < e.cost", "Cost(n) < e.cost")],
    ),
    (
        "the cache lets slow bodies wait behind those who wait for their memory",
        "./datapath/chunkcache TestLeasesAreSwappedForCopies",
        [("datapath/chunkcache/lease.go", "c.budget.TrySwap", "c.budget.TryReserve")],
    ),
    (
        "a buffer that shrinks keeps its memory on the books",
        "./datapath/chunkcache TestBuffersShrink",
        [("datapath/chunkcache/buffer.go", "\tb.slot.held.Shrink(keep + entryCost)\n", "")],
    ),
]
