"""Planted bugs of `millrace top`, and of what limits the readers."""

PLANTS = [
    (
        "names from a gateway reach the terminal as they are",
        "./cmd/internal/top TestHostileNames",
        [("cmd/internal/top/stats.go", "if !unicode.IsPrint(r) {", "if false && !unicode.IsPrint(r) {")],
    ),
    (
        "a restart of a gateway goes unseen",
        "./cmd/internal/top TestARestartGivesNoRates",
        [("cmd/internal/top/report.go", "if again {", "if false {")],
    ),
    (
        "counters that fall give negative rates",
        "./cmd/internal/top TestARestartGivesNoRates",
        [("cmd/internal/top/report.go", "return max(0, of(s)-of(&before.Stats)) / f.Seconds", "return (of(s) - of(&before.Stats)) / f.Seconds")],
    ),
    (
        "an answer that is shown again gives no rates",
        "./cmd/internal/top TestRates",
        [("cmd/internal/top/report.go", "case known && last.At.Equal(l.At):", "case known && last.At.Equal(l.At) && false:")],
    ),
    (
        "all of 10,000 ranks are laid out",
        "./cmd/internal/top TestTenThousandRanks",
        [("cmd/internal/top/model.go", "ranksTable(m.shown[m.first:last], ", "ranksTable(m.shown[m.first:], ")],
    ),
    (
        "gateways are asked while the screen is paused",
        "./cmd/internal/top TestKeys",
        [("cmd/internal/top/model.go", "	case due:\n		if m.paused {", "	case due:\n		if m.paused && false {")],
    ),
    (
        "the Go client asks the first gateway in place of the one that is named",
        "./client TestEachGatewayIsAskedByItself",
        [("client/gateway.go", "g.client.askJSON(ctx, g.at, ", "g.client.askJSON(ctx, g.client.fleet.gateways[0], ")],
    ),
    (
        "a name that is looked up for long holds up the answers of the others",
        "./cmd/internal/top TestASlowNameHoldsNobodyUp",
        [("cmd/internal/top/ask.go", "	case <-end.C:\n		return false", "	case <-make(chan struct{}):\n		return false")],
    ),
    (
        "a rank that waits for its bytes to be sent counts as one that computes",
        "./integration TestBottlenecks/a_narrow_way_to_the_reader",
        [("gateway/bottleneck/change.go", "min(r.waits[planning]+r.waits[bytes]+r.waits[sending], 1)", "min(r.waits[planning]+r.waits[bytes], 1)")],
    ),
    (
        "the time until it is known what is in a batch is not counted",
        "./integration TestBottlenecks/20000_small_rows_a_batch_as_Arrow",
        [("datapath/lookahead/clock.go", "		c.spent.Planning += since\n", "")],
    ),
    (
        "a gateway that is busy says that the network limits",
        "./integration TestBottlenecks/readers_that_do_nothing_but_read",
        [("gateway/bottleneck/rules.go", "	works = 0.15", "	works = 15")],
    ),
    (
        "waiting of the last minutes counts, not that of the last seconds",
        "./gateway/bottleneck TestEachRuleHasItsSituation",
        [("gateway/bottleneck/change.go", "		earlier := spent[key{r.Job, r.Rank}]", "		earlier := spent[key{r.Job, r.Rank + 1}]")],
    ),
    (
        "a rank that has stopped is not slow, as it has taken no time between two batches",
        "./integration TestBottlenecks/one_rank_has_stopped",
        [("gateway/bottleneck/rules.go", "max(r.think, rests) <= late*others", "r.think <= late*others")],
    ),
    (
        "a rank that stood still for a while stays slow",
        "./gateway/bottleneck TestRanksThatStandStill",
        [("gateway/bottleneck/change.go", "n := s.Paused - before.Paused; n > 0", "n := s.Paused - before.Paused; n > 1<<40")],
    ),
    (
        "who waits for the disk is told that the store limits",
        "./integration TestBottlenecks/small_memory_before_a_disk",
        [("gateway/bottleneck/change.go", "return c.cause() == bytes && c.tier() == tier", 'return c.cause() == bytes && c.tier() != "peer"')],
    ),
    (
        "one of two ranks that are equally late is named as the one for which the others wait",
        "./gateway/bottleneck TestRanksInStep",
        [("gateway/bottleneck/rules.go", "			h.next = max(h.next, x.Behind)", "			h.next = min(h.next, x.Behind)")],
    ),
    (
        "the second one who asks is told about a tenth of a second",
        "./gateway/bottleneck TestManyAskers",
        [("gateway/bottleneck/bottleneck.go", "		h.snapshots = []Snapshot{{At: began}}", "		h.snapshots = []Snapshot{now}")],
    ),
    (
        "the command that is advised does not name the dataset as a shell takes it",
        "./gateway/bottleneck TestFigures",
        [("gateway/bottleneck/simulate.go", "words.Quoted(cmp.Or(address", "words.Printable(cmp.Or(address")],
    ),
]
