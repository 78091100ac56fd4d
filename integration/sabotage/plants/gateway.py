"""Planted bugs of the gateway."""

PLANTS = [
    (
        "what happened before the time that is looked at counts for what limits now",
        "./gateway/bottleneck TestEachRuleHasItsSituation",
        [("gateway/bottleneck/change.go", "c.now.Counters[name]-c.before.Counters[name]", "c.now.Counters[name]")],
    ),
    (
        "a rank that left long ago is what limits now",
        "./gateway/bottleneck TestEachRuleHasItsSituation",
        [("gateway/bottleneck/change.go", "r.Idle < reads || x.waiting() > 0", "true")],
    ),
    (
        "a store that is slow is taken for a memory that is too small",
        "./gateway/bottleneck TestEachRuleHasItsSituation",
        [("gateway/bottleneck/rules.go", "few || unused <= unwanted*loads || ", "few && loads < 0 || ")],
    ),
    (
        "a memory without room for chunks is taken for a slow store",
        "./gateway/bottleneck TestFewChunks",
        [("gateway/bottleneck/rules.go", "		few = unused == 0 //", "		few = unused < fewest //")],
    ),
    (
        "looks of a moment ago are what is compared with",
        "./gateway/bottleneck TestWhatIsCompared",
        [("gateway/bottleneck/bottleneck.go", ">= leastApart", ">= each")],
    ),
    (
        "samples by position are those of another place of the order",
        "./gateway TestSamplesByPositionAreThoseOfTheBatches",
        [("gateway/plans/plans.go", "positions[n] == positions[0]+n && lo+n < samples", "positions[n] > positions[0] && lo+n < samples")],
    ),
    (
        "samples by position are delivered although they are quarantined",
        "./gateway TestSamplesByPositionAreThoseOfTheBatches",
        [("gateway/plans/plans.go", "\thot, err = r.choice.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, out)\n", "\tc := r.choice\n\tc.quarantine = nil\n\thot, err = c.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, out)\n")],
    ),
    (
        "samples by position of a mixture come from the first positions",
        "./gateway TestSamplesByPositionOfMixtures",
        [("gateway/plans/mixtureorder.go", "turns = append(turns, m.At(b.Epoch, at))", "turns = append(turns, m.At(b.Epoch, at/2))")],
    ),
    (
        "two lists of positions have one ETag",
        "./gateway TestSamplesByPositionHaveForms",
        [("gateway/address/batch.go", 'at[i] = strconv.FormatUint(n, 10)', 'at[i] = strconv.FormatUint(n&1, 10)')],
    ),
    (
        "a position past the end of the epoch is taken",
        "./gateway TestSamplesByPositionRefuse",
        [("gateway/address/batch.go", "if at >= b.Samples {", "if at > b.Samples {")],
    ),
    (
        "positions are read with leading zeros and signs",
        "./gateway TestSamplesByPositionRefuse",
        [("gateway/address/query.go", 'if at[i] = q.Decimal("at", part, 0, math.MaxUint64); q.Failed("at") {', 'if at[i] = q.Decimal("at", strings.TrimLeft(part[:max(0, len(part)-1)], "+0")+part[max(0, len(part)-1):], 0, math.MaxUint64); q.Failed("at") {')],
    ),
    (
        "the gateway holds for every quarantine what the longest takes",
        "./gateway TestQuarantineHoldsWhatItTakes",
        [("gateway/plans/objects.go", "memory.Shrink(s.held(e.value))", "s.held(e.value)")],
    ),
    (
        "the gateway replaces a bad sample by one of another subset",
        "./gateway TestQuarantineOfASubset",
        [("gateway/plans/selection.go", "first = s.Members()\n", "bad, err = d.badSamples(ctx, key.name)\n")],
    ),
    (
        "the gateway leaves the quarantine out of a batch's name",
        "./gateway TestQuarantineReplacesTheBadAlone",
        [("gateway/address/parameters.go", "string { return p.Quarantine }", 'string { return "" }')],
    ),
    (
        "gateway sends the parts of a form at the places of whole samples",
        "./gateway TestEveryFormShowsTheSamples",
        [("gateway/body/body.go", "b.out = append(b.out, from[int64(piece.offset)+first:int64(piece.offset)+last])", "b.out = append(b.out, from[first:last])")],
    ),
    (
        "gateway keeps the order of the samples where fields name another",
        "./gateway TestEveryFormShowsTheSamples",
        [("gateway/body/keys.go", "\tfor _, name := range fields {\n\t\tif i := partNamed", "\tfor _, name := range slices.Sorted(slices.Values(fields)) {\n\t\tif i := partNamed")],
    ),
    (
        "gateway tells forms apart by nothing in an ETag",
        "./gateway TestEveryFormIsOneBody",
        [("gateway/address/parameters.go", "string { return p.View.Form.Name }", 'string { return "tar" }')],
    ),
    (
        "gateway resumes an answer of many batches at the wrong byte of a batch",
        "./gateway TestEveryFormIsOneBody",
        [("gateway/batches.go", "mine := body.Span{Start: max(part.Start-begin, 0)}", "mine := body.Span{Start: max(part.Start-s.at, 0)}")],
    ),
    (
        "gateway's Arrow columns say that what is none is there",
        "./gateway TestEveryFormShowsTheSamples",
        [("gateway/body/arrow/stream.go", "\t\t\tif !null {\n\t\t\t\tb[row/8]", "\t\t\tif !null || row > 0 {\n\t\t\t\tb[row/8]")],
    ),
    (
        "gateway's checksum leaves the last bytes out",
        "./gateway TestBatchesAreTheStoredBytes",
        [("gateway/body/body.go", "for i := range b.pieces {\n\t\tp := &b.pieces[i]\n\t\tif", "for i := range b.pieces[:len(b.pieces)-1] {\n\t\tp := &b.pieces[i]\n\t\tif")],
    ),
    (
        "gateway's ETag leaves the epoch out",
        "./integration TestEveryAddressHasItsOwnETag",
        [("gateway/address/batch.go", "shuffle.OrderVersion, b.Epoch, b.Number", "shuffle.OrderVersion, 0, b.Number")],
    ),
    (
        "gateway answers a range one byte short",
        "./gateway TestRanges",
        [("gateway/conditional/conditional.go", "min(to, size-1) - from + 1}, Part", "min(to, size-1) - from}, Part")],
    ),
    (
        "gateway takes a parameter that is given twice",
        "./gateway TestBadParametersAreNamedTogether",
        [("gateway/address/query.go", "case repeated:", "case repeated && name == part:")],
    ),
    (
        "gateway never gives up on a reader that has stopped reading",
        "./gateway TestSlowReaders",
        [("internal/sending/writer.go", "stall, total := w.moved.Add(w.Stall), w.began.Add(writeTotal)", "stall, total := w.began.Add(24 * time.Hour), w.began.Add(24 * time.Hour)")],
    ),
    (
        "gateway takes memory for a plan and does not give it back",
        "./gateway TestBodiesAreOnTheBooks",
        [("gateway/memory.go", "return r.Release, nil", "return func() { _ = r }, nil")],
    ),
    (
        "gateway sends no Retry-After",
        "./gateway TestStoreErrors",
        [("gateway/errors.go", "if retryAfter > 0 {", "if retryAfter < 0 {")],
    ),
    (
        "gateway's manifest gives a dealt share the positions of a contiguous one",
        "./gateway TestBalanceDealsByLength",
        [("gateway/body/body.go", "\tif b.places != nil {\n\t\ti = b.places[i]\n\t}\n", "")],
    ),
    (
        "gateway's addresses and ETags leave the importance out",
        "./gateway TestImportanceIsInThePlan",
        [("gateway/address/parameters.go", "string { return p.Params.Importance }", 'string { return "" }')],
    ),
    (
        "gateway's addresses and ETags leave the share out",
        "./gateway TestLocalityKeepsWhatAddressesPromise",
        [("gateway/address/parameters.go", "string { return cmp.Or(string(p.Sharing), shareContiguous) }", 'string { return cmp.Or("", shareContiguous) }')],
    ),
    (
        "gateway reports a share that follows homes as if it were contiguous",
        "./gateway TestLossesOfScatteredShares",
        [("gateway/losses.go", "if !a.Scattered() {\n", "if !a.Deals() {\n")],
    ),
    (
        "losses are taken for the current generation, whichever their URL names",
        "./gateway TestReportsNameTheirGeneration",
        [("gateway/serve.go", 'if generation == "" || generation == x.dataset.Index.Generation() {', 'if generation != "0" {')],
    ),
    (
        "a request reports losses of two generations",
        "./gateway TestReportsNameTheirGeneration",
        [("gateway/losses.go", 'of != "" && of != d.Index.Generation() {', 'of == "0" {')],
    ),
    (
        "occurrences name the rank of contiguous shares where samples are dealt by length",
        "./gateway TestOccurrencesNameTheRank",
        [("gateway/body/ranks.go", "if !b.Scattered() {", "if !b.Follows() {")],
    ),
    (
        "occurrences name the rank of another row",
        "./shuffle TestRanksAreThoseThatAreDealtTo",
        [("shuffle/ranks.go", "if row%2 == 1 {", "if row%2 == 3 {")],
    ),
    (
        "gateway keeps the losses of each rank apart",
        "./gateway TestImportanceIsTheSameWhoeverReports",
        [("gateway/address/parameters.go", "return p.canonical(Order | Choice | Batching) }", "return p.canonical(Order | Choice | Batching | Rank) }")],
    ),
    (
        "gateway weighs the sample behind a virtual position by the number of the draw",
        "./gateway TestLossesWeighTheSamplesTheyAreOf",
        [("gateway/plans/plans.go", "\thot, err = r.choice.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, out)\n\treturn out, hot, err", "\treturn out, hot, ctx.Err()")],
    ),
    (
        "gateway warms from the beginning of the epoch again and again",
        "./gateway TestWarmGoesOnWhereItIsTold",
        [("gateway/warm.go", "at.First, at.End = from,", "at.First, at.End = 0,")],
    ),
    (
        "the gateway says of chosen parts where they lie in the stored sample",
        "conformance gateway",
        [("gateway/body/framed.go", "\t\t\tp.Offset = lengths[i]\n", "")],
    ),
    (
        "the gateway gives the rest of a body, whatever If-Range says",
        "conformance gateway",
        [("gateway/conditional/conditional.go", "strings.TrimSpace(cond[0]) != etag", "strings.TrimSpace(cond[0]) == \"\"")],
    ),
    (
        "gateway's access line has the tiers of the last batch alone",
        "./gateway TestAccessLineOfManyBatchesHasTheirSums",
        [("gateway/timing/timing.go", "r.Tiers[i].Bytes += t.Bytes", "r.Tiers[i].Bytes = t.Bytes")],
    ),
    (
        "Server-Timing drops the zeros between point and digits",
        "./gateway/timing TestMillisecondsAreTheShortestNumber",
        [("gateway/timing/timing.go", "b = append(b, '.', byte('0'+micros/100), byte('0'+micros/10%10), byte('0'+micros%10))", "b = strconv.AppendInt(append(b, '.'), micros, 10)")],
    ),
    (
        "a request out of memory notes for spans that nobody records",
        "./gateway TestABatchFromMemoryAllocatesLittle",
        [("gateway/batch.go", "if err == nil && span.Recorded() {", "if err == nil {"), ("gateway/serve.go", "value, ok := strings.CutPrefix(part, \"generation=\")", "values, _ := url.ParseQuery(part)\n\t\tvalue, ok := values.Get(\"generation\"), values.Has(\"generation\")")],
    ),
    (
        "a short stretch before a long one is told by itself",
        "./gateway/timing TestShortStretchesAreJoined",
        [("gateway/timing/timing.go", "case joins && before.to-before.from < least:", "case joins && before.to == before.from:")],
    ),
    (
        "the last phase of a request is missing from its trace",
        "./gateway TestRequestsAreTraced",
        [("gateway/timing/timing.go", "\tif r.left != nil {\n\t\tr.tell()\n\t}\n\treturn took", "\treturn took")],
    ),
    (
        "gateway's access line says nothing of the wait for memory",
        "./gateway TestAccessLineTellsTheWaitForMemory",
        [("gateway/memory.go", "\tdefer x.log.Leave(x.log.Enter(timing.Wait))\n", "\t_ = timing.Wait\n")],
    ),
    (
        "gateway passes over If-Match",
        "./gateway TestIfMatchIsHeldTo",
        [("gateway/headers.go", "len(match) > 0 && !conditional.Names(match", "len(match) > 9 && !conditional.Names(match")],
    ),
    (
        "gateway looks for another path than the router when it lists methods",
        "./gateway TestMethodsThatNoRouteTakes",
        [("gateway/routes.go", "path = x.r.URL.RawPath", "path = x.r.URL.Path")],
    ),
    (
        "gateway lets caches keep for ever what a release may say more of",
        "./gateway TestHowLongAnswersMayBeKept",
        [("gateway/headers.go", '"max-age=3600"', '"max-age=31536000, immutable"')],
    ),
    (
        "gateway pins a subset that the URL names without its split",
        "./gateway TestHowLongAnswersMayBeKept",
        [("gateway/address/parameters.go", ' && (p.Params.Subset == "" || SubsetNamesItsData(p.Params.Subset))', "")],
    ),
    (
        "gateway gives a description the same ETag whatever it says",
        "./gateway TestAddressesStay",
        [("gateway/address/batch.go", 'fmt.Sprintf("%s description %d", what, DescriptionVersion)', "what")],
    ),
    (
        "gateway sends all that it refused back at once",
        "./gateway TestRetryAfterIsSpread",
        [("gateway/errors.go", "d/2 + rand.N(2*d)", "d + 0*rand.N(d)")],
    ),
    (
        "gateway lets browsers guess what an answer is",
        "./gateway TestBrowsersLeaveAnswersAlone",
        [("gateway/handler.go", '\t\tx.w.Header().Set("X-Content-Type-Options", "nosniff")\n', "")],
    ),
    (
        "gateway goes on with a plan that is not prepared when a request ends",
        "./gateway/plans TestWaitingForAPlanEndsWithItsContext",
        [("gateway/plans/cache.go", 'return fmt.Errorf("wait for a plan: %w", ctx.Err())', "return nil")],
    ),
    (
        "gateway reads the next batch for a reader that was too slow for this one",
        "./gateway TestReaderThatIsTooSlowEndsTheNextRead",
        [("gateway/batches.go", "\t\tif err != nil {\n\t\t\tcancel()\n\t\t}\n", "")],
    ),
    (
        "gateway keeps connections open when its listener fails",
        "./gateway TestServeThatFailsLeavesNobodyWaiting",
        [("internal/port/port.go", 'err = errors.Join(err, s.http.Close())\n\t\ts.leave()\n', '')],
    ),
    (
        "gateway pays for request bodies before they come",
        "./gateway TestAnnouncedBodiesHoldNoMemory",
        [("gateway/post.go", "\tin := io.LimitReader(x.r.Body, limit+1)\n", "\tin := io.LimitReader(x.r.Body, limit+1)\n\tend, err := g.reserve(x.r.Context(), limit*times)\n\tif err != nil {\n\t\treturn nil, nil, err\n\t}\n\theld = append(held, end)\n")],
    ),
    (
        "gateway lets request bodies have all memory",
        "./gateway TestBodiesHaveAShareOfTheirOwn",
        [("gateway/post.go", "if g.posted.Add(n) > g.mostOfBodies() {", "if g.posted.Add(n) < 0 {")],
    ),
    (
        "gateway lets idle connections lock out others",
        "./gateway TestIdleConnectionsGiveWay",
        [("internal/port/idle.go", "\tln.Full = i.shed\n", "\t_ = i.shed\n")],
    ),
    (
        "gateway is as patient with slow readers where memory is short",
        "./gateway TestSlowReaders",
        [("internal/sending/writer.go", "if !w.pressed() {", "if !w.pressed() || w.size > 0 {")],
    ),
    (
        "gateway plans for as many requests as come",
        "./gateway/admission TestPlacesAreBounded",
        [("gateway/admission/places.go", "return placesPerProcessor * runtime.GOMAXPROCS(0)", "return 1 << 20 * runtime.GOMAXPROCS(0)")],
    ),
    (
        "gateway holds all that a slow body has",
        "./gateway TestSlowBodiesSettle",
        [("internal/sending/writer.go", "\t\t\tif w.pressed() {\n", "\t\t\tif w.pressed() && w.Bytes < 0 {\n")],
    ),
    (
        "gateway settles slow bodies though there is memory",
        "./gateway TestSlowBodiesSettle",
        [("internal/sending/writer.go", "\t\t\tif w.pressed() {\n", "\t\t\tif w.pressed() || w.Bytes > 0 {\n")],
    ),
    (
        "gateway goes on at the wrong byte of a slow batch among many",
        "./gateway TestSlowBodiesSettle",
        [("internal/sending/writer.go", "settle(w.Bytes - begin)", "settle(w.Bytes - 0*begin)")],
    ),
    (
        "gateway forgets samples of a slow body that a later column needs",
        "./gateway TestSlowBodiesSettle",
        [("gateway/body/body.go", "\t\tif !needed[seq] {\n", "\t\tif !needed[seq] || seq == 1 {\n")],
    ),
    (
        "slow readers keep the chunks that they read of",
        "./integration TestSlowReadersLeaveRoomForOthers",
        [("gateway/batch.go", "\th.read.Settle()\n", "")],
    ),
    (
        "gateway reads the index again for each of many batches",
        "./integration TestDearestRequests",
        [("gateway/measure.go", "const groupShare = 8", "const groupShare = 8 << 40")],
    ),
    (
        "gateway takes any work upon itself",
        "./integration TestDearestRequests",
        [("gateway/batch.go", "\tif work <= most {\n", "\tif work >= 0 {\n")],
    ),
    (
        "gateway mixes up the keys of batches that are measured together",
        "./gateway TestEveryFormIsOneBody",
        [("gateway/body/group.go", "own.keys, t.keys = t.keys[:n:n], t.keys[n:]", "own.keys = t.keys[:n:n]")],
    ),
    (
        "gateway keeps the reports of all callers together",
        "./gateway TestReportersDoNotMix",
        [("gateway/losses.go", "reports[i].Reporter = reporter(x)", "reports[i].Reporter = reporter(x)[:0]")],
    ),
    (
        "gateway freezes what others have reported",
        "./gateway TestReportersDoNotMix",
        [("gateway/snapshots.go", "\twant.Reporter = reporter(x)\n", "")],
    ),
    (
        "gateway tells the reader of a snapshot who has made it",
        "./gateway TestReportersDoNotMix",
        [("chunkindex/importance/snapshot.go", "\tplan, _ := splitPlan(s.plan)\n\treturn plan\n", "\treturn s.plan\n")],
    ),
    (
        "a reporter may begin epochs without end",
        "./chunkindex/importance TestOpenEpochsAreBounded",
        [("chunkindex/importance/pairs.go", "!own && len(open) >= maxOpen", "!own && len(open) > maxOpen*maxOpen")],
    ),
    (
        "an epoch that was frozen counts as open",
        "./chunkindex/importance TestOpenEpochsAreBounded",
        [("chunkindex/importance/pairs.go", "\t\t\tdelete(open, strings.TrimSuffix(o.Key, frozen))", "\t\t\t_ = strings.TrimSuffix(o.Key, frozen)")],
    ),
    (
        "a request may report batches without end",
        "./gateway TestInventedEpochsAreBounded",
        [("gateway/losses.go", "if len(sent.Batches) > maxReported {", "if len(sent.Batches) > maxReported<<20 {")],
    ),
    (
        "requests that wait for an index whose store hangs hold the places of all datasets",
        "./gateway TestAnIndexWhoseStoreHangsHoldsUpItsOwnDatasetAlone",
        [("gateway/batch.go", "\tif d.Index.InPart() {", "\tif d.Index == nil {")],
    ),
]
