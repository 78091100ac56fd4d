"""Orders: published orders and stored plans keep their meaning in every release, by vectors and golden files."""

PLANTS = [
    (
        "shuffle permutes every window alike",
        "./shuffle TestWindowsAreShuffledApart",
        [("shuffle/window.go", "newPerm(w.key.with(i), n)", "newPerm(w.key.with(i*0), n)")],
    ),
    (
        "shuffle replaces the quarantined samples of a chunk by the same one in every epoch",
        "./shuffle TestQuarantineReplacesTheBadAlone",
        [("shuffle/quarantine.go", 'newKey("quarantine", q.seed, epoch, uint64(chunk))', 'newKey("quarantine", q.seed, uint64(chunk))')],
    ),
    (
        "shuffle ignores the phase of a mixture's sources",
        "./shuffle TestMixtureVectors",
        [("shuffle/schedule.go", "lo, carry := bits.Add64(lo, s.phase, 0)", "lo, carry := bits.Add64(lo, 0, 0)")],
    ),
    (
        "shuffle exchanges samples until their costs differ by less than the sums",
        "./shuffle TestDivideFollowsTheDefinition",
        [("shuffle/balance.go", "gap := max(2*differ-d, d-2*differ)", "gap := max(differ-d, d-differ)")],
    ),
    (
        "shuffle leaves the batches of a bucket in ascending order of cost",
        "./shuffle TestBucketsFollowTheDefinition",
        [("shuffle/bucket.go", "from, first := batches.at(q)*b.BatchSize, len(places)", "from, first := q*b.BatchSize, len(places)")],
    ),
    (
        "shuffle assigns some lanes to the wrong home",
        "./shuffle TestHomesVectors",
        [("shuffle/homes.go", "uint32(mulDiv(j, homes, k)) }", "uint32(mulDiv(j+1, homes, k+1)) }")],
    ),
    (
        "shuffle leaves the pieces of short lanes in their places",
        "./shuffle TestVectors",
        [("shuffle/slot.go", "\t\t\to.pieces = append(", "\t\t\tif order.n < 4 {\n\t\t\t\ti = uint64(len(o.pieces)) - uint64(first)\n\t\t\t}\n\t\t\to.pieces = append(")],
    ),
    (
        "selection hashes names without the salt",
        "./chunkindex/selection TestRuleVectors",
        [("chunkindex/selection/rule.go", '[]byte("millrace subset\\n" + r.Salt + "\\n")', '[]byte("millrace subset\\n\\n")')],
    ),
    (
        "selection stores splits by shards under another version number",
        "./chunkindex/selection TestGoldenSplits",
        [("chunkindex/selection/layout.go", "shardVersion = 2 ", "shardVersion = 3 ")],
    ),
    (
        "importance encodes losses in another form",
        "./chunkindex/importance TestGoldenReport",
        [("chunkindex/importance/report.go", "reportMagic  = \"MRLOSS01\"", "reportMagic  = \"MRLOSS02\"")],
    ),
    (
        "importance lets the order of reports decide",
        "./chunkindex/importance TestFreeze_IgnoresTheOrderOfReports",
        [("chunkindex/importance/gather.go", "n < len(reports) && reports[n].Batch == reports[0].Batch", "n < 1")],
    ),
    (
        "a state of Python names the end of an epoch, not the beginning of the next",
        "client/python/tests/test_states.py test_what_is_saved_in_the_vectors",
        [("client/python/millrace/_job.py", "place if place.position < plan.delivered", "place if place.position <= plan.delivered")],
    ),
]
