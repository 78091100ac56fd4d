"""Planted bugs of the data path."""

PLANTS = [
    (
        "datapath skips the CRC of a chunk",
        "./datapath TestStoreErrorsNameTheRange",
        [("datapath/store.go", "return crc == desc.CRC32C &&", "return desc.CRC32C == desc.CRC32C &&")],
    ),
    (
        "datapath reads under no ETag",
        "./integration TestDamageUnderARunningGateway",
        [("datapath/reads.go", "ETag: shard.ETag, VersionID", 'ETag: "", VersionID')],
    ),
    (
        "datapath closes the leases before the body is read",
        "./datapath TestSimulatedScenarios",
        [
            (
                "datapath/gather.go",
                "\tg.came.peer += far.bytes - g.far.bytes\n",
                "\tg.came.peer += far.bytes - g.far.bytes\n\tif g.leases != nil {\n\t\tg.leases.Close()\n\t}\n",
            )
        ],
    ),
    (
        "datapath keeps the budget of a body it copied",
        "./datapath TestNoCacheTooSmallReadsMuchMoreThanTheData",
        [("datapath/gather.go", "\tg.giveBack()\n\tg.source.path.ahead.release(g.run)\n", "\tg.source.path.ahead.release(g.run)\n")],
    ),
    (
        "datapath shares chunks whose digest nobody compared",
        "./datapath TestTwoNamesShareOneChunk",
        [("datapath/path.go", "if !p.cfg.CheckSHA {", "if false {")],
    ),
    (
        "datapath serves one place's claims from disk to readers of another",
        "./datapath TestPlacesShareTheDiskOnlyWithSHA",
        [("datapath/disk.go", "if !s.path.cfg.CheckSHA {\n\t\ts.origin", "if false {\n\t\ts.origin")],
    ),
    (
        "datapath counts a chunk that is in memory for its next use as needed at once",
        "./datapath TestChunkInMemoryIsReadAfterItsNextUse",
        [("datapath/disk.go", "p.readers.Distance(s, chunk, s.chunks.Resident(chunk))", "p.readers.Distance(s, chunk, false)")],
    ),
    (
        "datapath takes a chunk from disk without its SHA-256",
        "./datapath TestForgedFilesAreFoundBySHA",
        [("datapath/disk.go", "if s := l.source; s.path.cfg.CheckSHA && !s.intact(", "if s := l.source; false && !s.intact(")],
    ),
    (
        "datapath lets chunks go that a reader comes for soon",
        "./datapath TestJobsOnOneEpochReadTheStoreOnce",
        [("datapath/eviction.go", "return min(int64(c.Due), chunkcache.Soon-1)", "return chunkcache.Never")],
    ),
    (
        "datapath goes on with reads for a reader that has jumped",
        "./datapath TestReaderThatJumpsGivesUpWhatItLeft",
        [("datapath/prefetch.go", "if now := p.readers.Changes(); now != changes {", "if now := p.readers.Changes(); now == ^changes {")],
    ),
    (
        "datapath lets those who warm take the whole line",
        "./datapath TestWarmReadsLeaveRoomForWhatReadersComeFor",
        [("datapath/gate.go", "\tif g.starved {\n", "\tif false {\n")],
    ),
    (
        "datapath reads no more chunks side by side though that would pay",
        "./datapath TestReadsSideBySideFollowTheBandwidth",
        [("datapath/climb.go", "\tnext := min(limit+max(limit/4, 1), c.most)\n", "\tnext := limit\n")],
    ),
    (
        "datapath reads more chunks side by side whether that pays or not",
        "./datapath TestClimb",
        [("datapath/climb.go", "part := growPays\n", "part := 0.0\n")],
    ),
    (
        "datapath looks for more places though no read found none",
        "./datapath TestPlacesThatSuffice",
        [("datapath/climb.go", "if r.wanted && !r.paced {", "if !r.paced {")],
    ),
    (
        "datapath reads as much side by side of a store that throttles",
        "./datapath TestStoreThatAsksForLess",
        [("datapath/reads.go", "errors.Is(err, objstore.ErrThrottled) ||", "")],
    ),
    (
        "datapath serves what a peer sent without comparing it with the index",
        "./datapath TestNoPeerSpoilsABatch",
        [("datapath/question.go", "if checksum(x.segments[r.Seq]) == r.CRC32C {", "if true {")],
    ),
    (
        "datapath keeps what a peer sent along without comparing it with the index",
        "./datapath TestWrongSamplesAreNotKept",
        [("datapath/gather.go", "\tfor _, x := range lost.fills {", "\tfor _, x := range lost.fills[:0] {")],
    ),
    (
        "datapath asks peers for what a peer asks of it",
        "./datapath TestWhoDoesNotOwnAChunkAnswersFromTheStore",
        [("datapath/answer.go", "body, err = s.body(ctx, b, b, request{}, nil)", "b.origin = fromRank\n\t\tbody, err = s.bring(ctx, shuffle.Cursor{}, b)")],
    ),
    (
        "datapath waits for memory while a peer waits for its answer",
        "./datapath TestAnAnswerWaitsForNoMemory",
        [("datapath/answer.go", "b.origin, b.tries = fromPeer, true", "b.origin = fromPeer")],
    ),
    (
        "datapath trusts an owner of a view that is over",
        "./datapath TestOwnersAreThoseOfTheView",
        [("datapath/owners.go", "if is != nil && is.view == view {", "if is != nil {")],
    ),
    (
        "datapath has every gateway warm every chunk",
        "./datapath TestWarmingBringsWhatIsOwned",
        [("datapath/warm.go", "if s.name != \"\" && s.owner(int(span.Chunk)) != \"\" {", "if false {")],
    ),
    (
        "datapath keeps a chunk of its former owner without comparing it with the index",
        "./datapath TestAFormerOwnerThatFails",
        [("datapath/former.go", "if !s.intact(desc, dst, checksum(dst)) {", "if false {")],
    ),
    (
        "datapath asks a former owner to load a chunk",
        "./datapath TestAFormerOwnerReadsNothing",
        [("datapath/former.go", "Generation: s.index.Generation(), Cached: true,", "Generation: s.index.Generation(),")],
    ),
    (
        "datapath asks peers for what is in memory",
        "./datapath TestWhatIsHereIsNotAskedFor",
        [("datapath/owners.go", "if member == \"\" || s.whereIs(chunk) != notHere {", "if member == \"\" {")],
    ),
    (
        "datapath keeps what was sent along for readers that have gone",
        "./datapath TestWhatIsSentAlongIsNotKeptForNobody",
        [("datapath/prefetch.go", "\t\tp.ahead.expire()\n", "")],
    ),
    (
        "datapath asks for a sample twice that is under way",
        "./datapath TestManyUnderWayAskForNothingTwice",
        [("datapath/readahead.go", "\tcase <-ctx.Done():\n\t}\n\ta.release(n)", "\tdefault:\n\t}\n\ta.release(n)")],
    ),
    (
        "lookahead gives back the memory of a run that a batch holds",
        "./datapath/lookahead TestRunsGiveTheirMemoryBackOnce",
        [("datapath/lookahead/course.go", "\tr.holders++\n", "")],
    ),
    (
        "lookahead keeps the memory of a run that is given up",
        "./datapath/lookahead TestRunsGiveTheirMemoryBackOnce",
        [("datapath/lookahead/course.go", "\t\tif goes {\n\t\t\tr.Release()\n\t\t}\n", "")],
    ),
    (
        "lookahead lets a run ask for as much as it likes",
        "./datapath/lookahead TestARunKeepsToItsLimits",
        [("datapath/lookahead/question.go", "if end > r.first && l.passed(asked) {", "if end < r.first && l.passed(asked) {")],
    ),
    (
        "datapath keeps what was read ahead for a rank that reads elsewhere now",
        "./datapath TestWhatIsSentAlongIsNotKeptForNobody",
        [("datapath/readahead.go", "!ok || lookahead.Passed(at, r.At())", "!ok || at.Plan == nil")],
    ),
    (
        "datapath lets those who wait for peers take all the memory",
        "./datapath TestThoseWhoWaitForPeersHoldHalf",
        [("datapath/owners.go", "if a.bytes.Acquire(ctx, n) != nil {", "if true {")],
    ),
    (
        "datapath keeps the leases of a batch that peers had a part in",
        "./integration/clustersim TestHistories",
        [("datapath/gather.go", "\tif g.leases != nil {\n\t\tg.leases.Close()\n\t}\n", "")],
    ),
    (
        "datapath gives one question all the time of a request",
        "./datapath TestNoPeerSpoilsABatch",
        [("datapath/question.go", "peerPart = 2\n", "peerPart = 1\n")],
    ),
    (
        "datapath asks no former owner",
        "./datapath TestANewOwnerAsksTheFormerOne",
        [("datapath/former.go", "if s.name == \"\" || s.owner(chunk) != \"\" {", "if true {")],
    ),
    (
        "datapath tells peers of another rank than reads",
        "./integration/clustersim TestHistories",
        [("datapath/owners.go", "b.reader.Plan, b.reader.Cursor.Epoch = nil, nil", "b.reader.Plan, b.reader.Cursor.Epoch, b.reader.Rank = nil, nil, at.Rank/2")],
    ),
    (
        "datapath reads every sample of a chunk of objects from the first one",
        "./datapath TestObjectsAreReadOneByOne",
        [("datapath/ranges.go", "i, offset := l.from(of.offset)", "i, offset := 0, of.offset")],
    ),
    (
        "datapath takes a compressed chunk that decodes for one that is right",
        "./datapath TestCompressedChunksThatAreWrong",
        [("datapath/reads.go", "return s.intact(desc, p.data, sum)", "return p.pieces > 0 && desc.Codec != codec.None || s.intact(desc, p.data, sum)")],
    ),
    (
        "datapath waits for all objects of a chunk when a few are wanted",
        "./datapath TestObjectsAreReadOneByOne",
        [("datapath/choose.go", "\t\treturn at == inMemory\n", "\t\treturn true\n")],
    ),
    (
        "datapath keeps no memory to decode in",
        "./datapath TestDecodersDoNotWaitForEachOther",
        [("datapath/memory.go", "if other, ok = d.cache.TryWork(n); !ok {", "if other, ok = nil, false; !ok {")],
    ),
    (
        "datapath waits for memory with a part of a mixture's batch in hand",
        "./datapath TestBatchesOfMixturesDoNotWaitForEachOther",
        [("datapath/mixture.go", "h.batch.tries = true", "h.batch.tries = false")],
    ),
    (
        "datapath takes the memory of several paths in any order",
        "./datapath TestBatchesOfMixturesDoNotWaitForEachOther",
        [("datapath/mixture.go", "paths: paths, parts: parts", "paths: []*Path{parts[0].Source.path, parts[1].Source.path}, parts: parts")],
    ),
    (
        "datapath gives a mixture's sample the place of another",
        "./datapath TestMixtureAsksPeers",
        [("datapath/mixture.go", "segments[seq] = h.body.Segments[k]", "segments[min(seq+k%2, total-1)] = h.body.Segments[k]")],
    ),
    (
        "datapath has two batches decode in one memory",
        "./datapath TestDecodersDoNotWaitForEachOther",
        [("datapath/memory.go", "return kept.Bytes()[:n], func() { d.putBack(kept) }, nil", "d.kept <- kept\n\t\treturn kept.Bytes()[:n], func() {}, nil")],
    ),
    (
        "every failed chunk is looked at to note one more",
        "./internal/pause TestFailuresAreNotedInConstantTime",
        [("internal/pause/pause.go", "if len(l.known) < l.sweep {", "if len(l.known) < 0 {")],
    ),
    (
        "datapath forgets to try again what could not be fetched ahead",
        "./datapath TestPrefetchGoesOnWhenTheStoreIsBack",
        [("datapath/prefetch.go", "\t\tcase <-again.C:\n", "")],
    ),
    (
        "datapath sleeps when a body's memory is free for what comes next",
        "./datapath TestPrefetchGoesOnWhenThereIsMemory",
        [("datapath/path.go", "\tcfg.Budget.SetFreed(p.memoryFreed)\n", "")],
    ),
    (
        "datapath fetches nothing ahead where not everything fits",
        "./datapath TestPrefetchTakesWhatMemoryThereIs",
        [("datapath/prefetch.go", "len(half) > 0 && errors", "len(half) < 0 && errors")],
    ),
    (
        "datapath takes memory full of chunks that nobody needs for full",
        "./datapath TestUnfollowedReadersUseMemoryThatNobodyNeeds/cold",
        [("datapath/path.go", "p.free() >= n || p.cache.Goes(chunkcache.Soon)", "p.free() >= n")],
    ),
    (
        "datapath brings whole chunks for the few samples that move between homes",
        "./datapath TestPlainGatewaysReadTheStoreOnce",
        [("datapath/choose.go", "case b.visit != nil && !b.visit.ComesFor(c.Chunk):", "case b.visit != nil && false:")],
    ),
    (
        "a body that settles goes on showing the chunks that it gave back",
        "./datapath TestSettledBodiesHoldLittle",
        [("datapath/settle.go", "g.segments[seq], to = to[:k:k], to[k:]", "to = to[k:]")],
    ),
    (
        "a copied body keeps the memory that it was read with",
        "./datapath TestSettledBodiesHoldLittle",
        [("datapath/settle.go", "g.room.shrink(g.used)", "g.room.shrink(g.used * 2)")],
    ),
    (
        "a first batch waits for whole chunks",
        "./datapath TestFirstBatchComesByWhatIsSooner",
        [("datapath/choose.go", "if b.visit != nil && b.visit.Opens {", "if false {")],
    ),
    (
        "a first batch comes by its ranges where chunks come sooner",
        "./datapath TestFirstBatchComesByWhatIsSooner",
        [("datapath/policy/policy.go", "&& 3*f.takes(", "&& 0*f.takes(")],
    ),
    (
        "a first batch counts on the places of chunks for its own reads",
        "./datapath TestFirstBatchOfAGatewayWithManyPlaces",
        [("datapath/choose.go", "min(p.gate.places(), p.first.places())", "p.gate.places()")],
    ),
    (
        "every batch is read by its ranges and by its chunks",
        "./datapath TestOnlyTheFirstBatchIsReadTwice",
        [("datapath/choose.go", "b.visit != nil && b.visit.Opens", "b.visit != nil")],
    ),
    (
        "a first batch reads by ranges what is in memory",
        "./datapath TestWhoResumesWaitsForNoWholeChunks",
        [("datapath/choose.go", "if at := s.whereIs(c.Chunk); at == inMemory || at == fromDisk ||", "if at := s.whereIs(c.Chunk); at == fromDisk ||")],
    ),
    (
        "only the batch that was asked for before all others counts as the first",
        "./datapath TestFirstBatchDoesNotWaitForThoseAskedForWithIt",
        [("datapath/lookahead/reader.go", "|| at.First > x.firstBatch {", "|| x.state == alone {")],
    ),
    (
        "datapath does not link a request to the load that it waits for",
        "./datapath TestWhoWaitsForALoadIsLinkedToIt",
        [("datapath/gather.go", "func(load any) { span.Link(load.(tracing.Span)) }", "func(load any) { _ = load.(tracing.Span) }")],
    ),
    (
        "datapath makes a load a part of the trace of the request that has begun it",
        "./datapath TestWhoWaitsForALoadIsLinkedToIt",
        [("datapath/fetch.go", 'tracing.Apart(ctx, "chunk load")', 'tracing.Start(ctx, "chunk load")')],
    ),
    (
        "datapath leaves the waits for memory out of traces",
        "./datapath TestWaitsForMemoryAndPlacesAreSpans",
        [
            (
                "datapath/memory.go",
                'tracing.Start(ctx, "wait for memory")\n\t\tspan.Number',
                'tracing.Start(context.Background(), "wait for memory")\n\t\tspan.Number',
            )
        ],
    ),
    (
        "datapath allocates for traces that are not recorded",
        "./datapath TestABatchFromMemoryAllocatesLittle",
        [
            (
                "datapath/source.go",
                "\tbody, err := s.bring(ctx, at, b)\n",
                "\tbody, err := s.bring(context.WithValue(ctx, new(int), chunks), at, b)\n",
            )
        ],
    ),
    (
        "reads of a store that hangs hold up those of other stores",
        "./datapath TestAStoreThatHangsTakesNoPlacesOfOthers",
        [("datapath/gate.go", "return own.running < max(g.limit/sharing, 1)", "return own.running < 0")],
    ),
    (
        "a place that a store gives back goes to no read of the same store",
        "./datapath TestAShareIsGivenOn",
        [("datapath/gate.go", "\tif len(g.stores) > 1 {", "\tif len(g.stores) > 64 {")],
    ),
    (
        "each store has all places for itself",
        "./datapath TestStoresShareThePlaces",
        [("datapath/gate.go", "max(g.limit/sharing, 1)", "max(g.limit, sharing, 1)")],
    ),
    (
        "the tables of small rows have room for a third of them",
        "./datapath TestTablesOfSmallRowsStay",
        [("datapath/path.go", "const tableShare = 4", "const tableShare = 16")],
    ),
    (
        "the memory that a chunk is decoded in is provided before it is written",
        "./datapath/chunkcache TestMemoryToWorkInHasNoPagesYet",
        [("datapath/chunkcache/load.go", "f.beside.sparse = true", "f.beside.sparse = false")],
    ),
]
