"""Kills: killed, restarted and interrupted processes resume, and remove nothing that is still in use."""

PLANTS = [
    (
        "diskcache keeps a file that a kill left half written",
        "./datapath/diskcache TestStraysAreRemovedAtStart",
        [("datapath/diskcache/scan.go", "_ = c.disk.remove(path.Join(chunkDir, sub, d.Name()))", "")],
    ),
    (
        "diskcache names a file before it is complete",
        "./datapath/diskcache TestFileIsNamedLast",
        [
            ("datapath/diskcache/write.go", "c.disk.write(temp, func", "c.disk.write(n.file(), func"),
            ("datapath/diskcache/write.go", "err = c.disk.rename(temp, n.file()); err != nil {", "err != nil {"),
        ],
    ),
    (
        "gateway takes over the socket of a running gateway",
        "./cmd/internal/node TestListen_UnixSocket",
        [("cmd/internal/node/listen.go", "return errors.New(\"another process listens at this path\")", "return nil")],
    ),
    (
        "gateway leaves at Ctrl-C while readers are between two batches",
        "./integration TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads",
        [("cmd/internal/node/interrupt.go", "pause > 0 && idle <", "pause < 0 && idle <")],
    ),
    (
        "Python client leaves a killed gateway dead",
        "client/python/tests/test_local.py test_a_killed_gateway_is_started_again",
        [("client/python/millrace/_http/gateways.py", "(ShortBody, NotFound, Unauthenticated, ProtocolError)) and local.revive()", "(NotFound,)) and local.revive()")],
    ),
    (
        "importance drops the log behind a damaged record",
        "./chunkindex/importance TestDamageCostsOneRecord",
        [("chunkindex/importance/kept.go", "if i := bytes.Index(", "if i := -bytes.Index(")],
    ),
    (
        "pack replaces a shard that another machine has stored",
        "./chunkindex/pack TestSecondMachineReplacesNothing",
        [("chunkindex/pack/write.go", "objstore.Condition{IfAbsent: j.opt.Share.Parts > 0}", "objstore.Condition{}")],
    ),
    (
        "gc removes a generation that losses were reported for",
        "./cmd/internal/garbage TestFind_KeepOptions",
        [("cmd/internal/garbage/generations.go", "case b.objects > 0 && !f.older(b.newest, keep):", "case false:")],
    ),
    (
        "Slurm job waits for gateways that have ended",
        "./integration/slurm TestFaultsOfAJob",
        [("deploy/slurm/millrace.sbatch", 'kill -0 "$gateways" 2>/dev/null ||', "true ||")],
    ),
    (
        "index keeps a segment whose shards are followed by new ones",
        "./chunkindex/build TestSegments_FollowFromTheData",
        [("chunkindex/build/reuse.go", "n == len(all)-1 && end < len(b.units) &&", "false &&")],
    ),
    (
        "gc removes a segment that the current generation has",
        "./cmd/internal/garbage TestFind_KeepsSharedSegments",
        [("chunkindex/unused.go", "kept[key] = kept[key] || !remove(generation)", "kept[key] = kept[key] && !remove(generation)")],
    ),
]
