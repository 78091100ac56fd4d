"""Planted bugs of `millrace top`."""

PLANTS = [
    (
        "names from a gateway reach the terminal as they are",
        "./internal/top TestHostileNames",
        [("internal/top/stats.go", "if !unicode.IsPrint(r) {", "if false && !unicode.IsPrint(r) {")],
    ),
    (
        "a restart of a gateway goes unseen",
        "./internal/top TestARestartGivesNoRates",
        [("internal/top/report.go", "if again {", "if false {")],
    ),
    (
        "counters that fall give negative rates",
        "./internal/top TestARestartGivesNoRates",
        [("internal/top/report.go", "return max(0, of(s)-of(&before.Stats)) / f.Seconds", "return (of(s) - of(&before.Stats)) / f.Seconds")],
    ),
    (
        "an answer that is shown again gives no rates",
        "./internal/top TestRates",
        [("internal/top/report.go", "case known && last.At.Equal(l.At):", "case known && last.At.Equal(l.At) && false:")],
    ),
    (
        "all of 10,000 ranks are laid out",
        "./internal/top TestTenThousandRanks",
        [("internal/top/model.go", "ranksTable(m.shown[m.first:last], ", "ranksTable(m.shown[m.first:], ")],
    ),
    (
        "gateways are asked while the screen is paused",
        "./internal/top TestKeys",
        [("internal/top/model.go", "	case due:\n		if m.paused {", "	case due:\n		if m.paused && false {")],
    ),
    (
        "the Go client asks the first gateway in place of the one that is named",
        "./client TestEachGatewayIsAskedByItself",
        [("client/each.go", "g.client.askJSON(ctx, g.at, ", "g.client.askJSON(ctx, g.client.fleet.gateways[0], ")],
    ),
    (
        "a name that is looked up for long holds up the answers of the others",
        "./internal/top TestASlowNameHoldsNobodyUp",
        [("internal/top/ask.go", "	case <-end.C:\n		return false", "	case <-make(chan struct{}):\n		return false")],
    ),
]
