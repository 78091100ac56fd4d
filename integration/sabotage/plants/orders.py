"""Planted bugs of the order: shuffles, subsets, weights, owners."""

PLANTS = [
    (
        "how a plan mixes is told of another batch size",
        "./shuffle TestBatchVarianceIsFoundOnce",
        [("shuffle/variance.go", "if v == nil || v.batchSize != batchSize {", "if v == nil {")],
    ),
    (
        "how a plan mixes is reckoned for each who asks",
        "./shuffle TestBatchVarianceIsFoundOnce",
        [("shuffle/variance.go", "if v == nil || v.batchSize != batchSize {", "if true {")],
    ),
    (
        "shuffle gives the last rank one sample less",
        "./shuffle TestSharesTileEveryBatch",
        [("shuffle/batch.go", "Count: hi - lo}", "Count: hi - lo - min(rank, 1)*min(hi-lo, 1)}")],
    ),
    (
        "shuffle forgets the rest of an epoch",
        "./shuffle TestSharesTileEveryBatch",
        [("shuffle/batch.go", "b.Tail != Drop && b.Samples%b.BatchSize != 0", "b.Tail == Pad && b.Samples%b.BatchSize != 0")],
    ),
    (
        "shuffle mixes every window in the same way",
        "./shuffle TestWindowsAreShuffledApart",
        [("shuffle/window.go", "newPerm(w.key.with(i), n)", "newPerm(w.key.with(i*0), n)")],
    ),
    (
        "shuffle draws every epoch with the same phase",
        "./shuffle TestDrawsVaryWithEpochAndSeed",
        [("shuffle/draws.go", 'newKey("importance", p.params.Seed, epoch)', 'newKey("importance", p.params.Seed)')],
    ),
    (
        "shuffle gives a virtual sample to the one before",
        "./shuffle TestDrawsFollowTheWeights",
        [("shuffle/draws.go", "if r > 0 {\n\t\tq++", "if r > d.samples {\n\t\tq++")],
    ),
    (
        "shuffle has bad samples of a chunk replaced by the same one in every epoch",
        "./shuffle TestQuarantineReplacesTheBadAlone",
        [("shuffle/quarantine.go", 'newKey("quarantine", q.seed, epoch, uint64(chunk))', 'newKey("quarantine", q.seed, uint64(chunk))')],
    ),
    (
        "shuffle counts the members of a subset's last byte twice",
        "./shuffle TestSubsetPlanDeliversItsMembersOnce",
        [("shuffle/subset.go", "for _, b := range bitmap[:place/8] {", "for _, b := range bitmap[:(place+7)/8] {")],
    ),
    (
        "shuffle forgets the phase of a mixture's sources",
        "./shuffle TestMixtureVectors",
        [("shuffle/mixture.go", "lo, carry := bits.Add64(lo, s.phase, 0)", "lo, carry := bits.Add64(lo, 0, 0)")],
    ),
    (
        "shuffle begins a mixture's fixed counts anew in each of its epochs",
        "./shuffle TestMixtureTakesEachOwnPositionOnce",
        [("shuffle/mixture.go", "return epoch*(m.samples/m.batch) + batch", "return batch")],
    ),
    (
        "selection hashes names without the salt",
        "./chunkindex/selection TestRuleVectors",
        [("chunkindex/selection/rule.go", '[]byte("millrace subset\\n" + r.Salt + "\\n")', '[]byte("millrace subset\\n\\n")')],
    ),
    (
        "selection believes the bitmaps of a damaged split",
        "./chunkindex/selection TestDamagedBitmapsAreNotBelieved",
        [("chunkindex/selection/subset.go", "if crc32.Checksum(b, castagnoli()) != x.crcs[chunk] {", "if false {"), ("chunkindex/selection/layout.go", "if found != members {", "if false {")],
    ),
    (
        "shuffle deals every row to the ranks in the same direction",
        "./shuffle TestDealBalancesBytes",
        [("shuffle/deal.go", "if row%2 == 1 {", "if row%2 == 2 {")],
    ),
    (
        "shuffle says that a chunk is needed again only while its last span lasts",
        "./shuffle TestSpansHoldTheFuture",
        [("shuffle/spans.go", "(!found || compareSpans(s, first) < 0)", "(!found || compareSpans(s, first) > 0)")],
    ),
    (
        "shuffle finds the wrong home for some lanes",
        "./shuffle TestHomesVectors",
        [("shuffle/homes.go", "uint32(mulDiv(j, homes, k)) }", "uint32(mulDiv(j+1, homes, k+1)) }")],
    ),
    (
        "shuffle breaks a tie between deficits by the highest group",
        "./shuffle TestRepairBreaksTiesByGroup",
        [("shuffle/homes.go", "cmp.Compare(u[i].group, u[j].group)", "cmp.Compare(u[j].group, u[i].group)")],
    ),
    (
        "shuffle gives away the first samples of a surplus",
        "./shuffle TestHomesVectors",
        [("shuffle/homes.go", "move(from.group, to.group, from.by-by, from.by)", "move(from.group, to.group, 0, by)")],
    ),
    (
        "shuffle reads every lane from its beginning",
        "./shuffle TestSlotMixesAfreshInEveryEpoch",
        [("shuffle/slot.go", "draw(0, l.length(j))", "draw(0, 1)")],
    ),
    (
        "shuffle reads a lane from the same turn in every epoch",
        "./shuffle TestSlotMixesAfreshInEveryEpoch",
        [("shuffle/slot.go", 'newKey("turn", seed, epoch)', 'newKey("turn", seed)')],
    ),
    (
        "shuffle leaves the pieces of short lanes, most of them cut, in their places",
        "./shuffle TestVectors",
        [("shuffle/slot.go", "\t\t\to.pieces = append(", "\t\t\tif order.n < 4 {\n\t\t\t\ti = uint64(len(o.pieces)) - uint64(first)\n\t\t\t}\n\t\t\to.pieces = append(")],
    ),
    (
        "shuffle forgets that a turn has a piece needed twice",
        "./shuffle TestATurnCutsOnePieceOfALane",
        [("shuffle/spans.go", "if first.end < o.length(first.lane) {", "if first.end < o.length(first.lane)-1 {")],
    ),
    (
        "shuffle takes as many ranks for the quota of each group",
        "./shuffle TestHomesVectors",
        [("shuffle/homes.go", "d.worldSize - mulDiv(d.homes-group, d.worldSize, d.homes)", "mulDiv(group, d.worldSize, d.homes)")],
    ),
    (
        "gateway leaves homes out of a batch's address",
        "./gateway TestLocalityKeepsWhatAddressesPromise",
        [("gateway/address/parameters.go", "return decimal(p.Homes)", "return decimal(p.WorldSize)")],
    ),
    (
        "shuffle hands out the deal of another batch",
        "./shuffle TestDealsOfManyBatchesAtOnce",
        [("shuffle/homes.go", "d == nil || d.first != batch.First ||", "d == nil ||")],
    ),
    (
        "shuffle takes the strata of every row in the same order",
        "./shuffle TestStrataMixEpochsAndRows",
        [("shuffle/strata.go", "row.with(r), k)", "row.with(r*0), k)")],
    ),
    (
        "shuffle takes the strata of the last row by their numbers",
        "./shuffle TestStrataFollowTheirDefinition",
        [("shuffle/strata.go", "order = ranked(order)", "order = ranked(order)\n\t\t\tslices.Sort(order)")],
    ),
    (
        "shuffle makes windows of strata half as large",
        "./shuffle TestWindowsHoldAllStrataAlike",
        [("shuffle/window.go", "p.params.Window/width)", "max(1, p.params.Window/width/2))")],
    ),
    (
        "placement moves chunks between the members that stay",
        "./cluster/placement TestLosingAMemberMovesOnlyItsChunks",
        [("cluster/placement/placement.go", "v.keys = append(v.keys, memberKey(m.ID))", "v.keys = append(v.keys, with(0, uint64(len(v.keys))))")],
    ),
    (
        "placement leaves weights out",
        "./cluster/placement TestLoadIsEven",
        [("cluster/placement/rendezvous.go", "bits.Mul64(log, v.members[best].Weight)", "bits.Mul64(log, weight)")],
    ),
    (
        "importance ranks the losses of each report by themselves",
        "./chunkindex/importance TestOrderOfReportsDoesNotShow",
        [("chunkindex/importance/gather.go", "n < len(reports) && reports[n].Batch == reports[0].Batch", "n < 1")],
    ),
    (
        "importance lets the order of conflicting reports decide",
        "./chunkindex/importance TestFoldTakesTheLowerOfTwoLosses",
        [("chunkindex/importance/fold.go", "cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.loss, b.loss))", "cmp.Compare(a.position, b.position)")],
    ),
    (
        "importance accepts a second loss for a position",
        "./chunkindex/importance TestOtherLossIsAConflict",
        [("chunkindex/importance/log.go", "case r.Losses[i] != stored.Losses[j]:", "case false:")],
    ),
    (
        "importance takes the weight of a sample's lowest position",
        "./chunkindex/importance TestHighestPositionCounts",
        [("chunkindex/importance/gather.go", "for i, s := range samples {", "for i := len(samples) - 1; i >= 0; i-- {\n\t\ts := samples[i]")],
    ),
    (
        "importance opens whatever lies under a snapshot's name",
        "./chunkindex/importance TestSnapshotUnderAnotherNameIsRefused",
        [("chunkindex/importance/open.go", "found != want.digest {", "found == \"\" {")],
    ),
    (
        "importance sends its local log from the beginning after every failure",
        "./chunkindex/importance TestFlushGoesOnWhereItFailed",
        [("chunkindex/importance/flush.go", "some, j.sent = some[:0], end", "some = some[:0]")],
    ),
    (
        "importance lets later losses of a kept batch overtake earlier ones",
        "./chunkindex/importance TestFlushKeepsTheOrderOfABatch",
        [("chunkindex/importance/flush.go", "key := l.batchPrefix(r)", "key := l.key(r) + string(rune(len(byBatch)))")],
    ),
    (
        "importance folds more reports at a time than it has reserved memory for",
        "./chunkindex/importance TestLargeReportsAreFoldedInParts",
        [("chunkindex/importance/gather.go", "groupBytes   = 8 << 20", "groupBytes   = 32 << 20")],
    ),
    (
        "importance leaves on the disk what kills have left of snapshots",
        "./chunkindex/importance TestWhatKillsLeftGoes",
        [("chunkindex/importance/open.go", "time.Since(file.at) > abandoned", "time.Since(file.at) < 0")],
    ),
    (
        "importance forgets what lies behind a damaged record",
        "./chunkindex/importance TestDamageCostsOneRecord",
        [("chunkindex/importance/kept.go", "if i := bytes.Index(", "if i := -bytes.Index(")],
    ),
    (
        "a picture leaves out what stands in for the bad samples of another chunk",
        "./gateway/plans TestPicturesAreExact",
        [("gateway/plans/canvas.go", "return c.drawSubstitutes(ctx)", "return nil")],
    ),
    (
        "a picture of a rank's share shows whole batches",
        "./gateway/plans TestPicturesAreExact",
        [("gateway/plans/canvas.go", "if c.own.has(batch, position) {", "if c.own.has(batch, position) || c.own.each > 0 {")],
    ),
    (
        "the sequence of a lane forgets its turn",
        "./shuffle TestSequenceOfSlotIsItsLanes",
        [("shuffle/sequence.go", "_, first := o.read(lane, 0)", "first := from")],
    ),
    (
        "gateway takes the first sample of a class for one of the class before when it measures mixing",
        "./gateway TestMixingIsWhatBatchesHold",
        [("gateway/plans/mixing.go", "return m.runs[i].End > sample })].Class", "return m.runs[i].End >= sample })].Class")],
    ),
    (
        "gateway measures mixing by the first batches alone",
        "./gateway TestMixingLooksAtSome",
        [("gateway/plans/mixing.go", "batching.Share(in.From+portion(i, batches, looks), b.Rank, b.WorldSize)", "batching.Share(in.From+i/64, b.Rank, b.WorldSize)")],
    ),
    (
        "gateway counts a chunk once for each of its samples when it measures mixing",
        "./gateway TestMixingIsWhatBatchesHold",
        [("gateway/plans/mixing.go", "sum += len(slices.Compact(chunks))", "sum += len(chunks)")],
    ),
    (
        "gateway links an epoch that ranks share by bytes to a picture that it refuses",
        "./gateway TestEpochsLinkToTheirPictures",
        [("gateway/plans/describe.go", "d.mixture == nil && !b.Deals() && b.Sharing", "d.mixture == nil && b.Sharing")],
    ),
    (
        "the page's address does not follow its picture of an order",
        "./integration/browser TestOrdersZoom",
        [("gateway/dashboard/page/picture.js", "    if (mine > 1) options.moved(rectangle); // the first one is that of the address\n", "")],
    ),
    (
        "the page shows what a batch varies by with another number of classes",
        "./integration/browser TestOrdersHaveThePlansFigures",
        [("gateway/dashboard/page/order.js", "number(p.expected_batch_variance_100)", "number(p.expected_batch_variance_10)")],
    ),
    (
        "the page's slider shows the figures of the plan for every window",
        "./integration/browser TestTheSliderTellsWhatAWindowBuys",
        [("gateway/dashboard/page/order.js", "p ? write(p, m) : ", "p ? write(own, m) : ")],
    ),
    (
        "the page calls sorted batches mixed",
        "./integration/browser TestThePageSaysWhetherDataIsMixed",
        [("gateway/dashboard/page/order.js", "v <= enough ? \"Nearly\"", "v <= 10 * enough ? \"Nearly\"")],
    ),
    (
        "the page compares the chunks of a plan with all of a gateway's memory",
        "./integration/browser TestThePageSaysThatTheCacheIsTooSmall",
        [("gateway/dashboard/page/order.js", "p.window_memory / 0.7;", "p.window_memory / 7;")],
    ),
    (
        "the page draws chunks as the epoch takes them where stored order is asked for",
        "./integration/browser TestOrdersAreDrawn",
        [("gateway/dashboard/page/order.js", "axis: plan.axis, ...rectangle", "axis: plan.shuffle === \"full\" ? \"stored\" : \"drawn\", ...rectangle")],
    ),
]
