"""Planted bugs of the program and of the simulation."""

PLANTS = [
    (
        "verify finds damage and exits as for any failure",
        "./cmd/millrace TestVerifyExitsWithThreeOnABadRange",
        [("cmd/millrace/exit.go", "case is(errCorrupt, chunkindex.ErrCorrupt, client.ErrCRC)", "case is(chunkindex.ErrCorrupt, client.ErrCRC)")],
    ),
    (
        "simulate gives every transfer the whole line",
        "./simulate TestLine",
        [("simulate/line.go", "l.free = max(l.free, l.clock.now) + seconds", "l.free = l.clock.now + seconds")],
    ),
    (
        "simulate forgets which chunks a reader comes for soon",
        "./simulate TestPredictionsAreWhatTheDataPathDoes",
        [("simulate/ahead.go", "\tg.memory.shelf.Rewarm(soon, changed)\n", "")],
    ),
    (
        "simulate lets ranks ask for nothing ahead",
        "./simulate TestBounds",
        [("simulate/rank.go", "k.asked <= k.at+ahead", "k.asked <= k.at")],
    ),
    (
        "simulate forgets the link of the gateway that answers",
        "./simulate TestLinkBinds",
        [("simulate/cluster.go", "through(n, done, from.up, to.down)", "through(n, done, to.down)")],
    ),
    (
        "simulate lets a gateway fetch ahead what others own",
        "./simulate TestClusterHoldsMoreThanOne",
        [("simulate/gateway.go", "return g.cluster.owner(int32(chunk)) == g }", "return true }")],
    ),
    (
        "simulate gives a part of a fleet the whole store",
        "./simulate TestFewStandForMany",
        [("simulate/fleet.go", "s.Rate*by, s.StoreRate*by", "s.Rate*by, s.StoreRate")],
    ),
    (
        "cmd/millrace takes whoever the authority has signed for a member",
        "./integration TestStrangersAreRefused",
        [("internal/node/peers.go", ", c.Allow)\n", ", nil)\n")],
    ),
    (
        "cmd/millrace gossips without its key",
        "./integration TestGossipJoin",
        [("internal/node/peers.go", "KeyFile: c.GossipKey, ", "")],
    ),
    (
        "cmd/millrace looks at what is alive once and never again",
        "./internal/node TestCollectionsAreNoticed",
        [("internal/node/collector.go", "\t\tcollections(ctx, ended)\n\t}, ended)", "\t}, ended)")],
    ),
]
