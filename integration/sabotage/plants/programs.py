"""Planted bugs of the program and of the simulation."""

PLANTS = [
    (
        "takeover counts chunks that a gateway holds already",
        "./datapath/simulate TestTakeOverIsWhatGatewaysLack",
        [("datapath/simulate/takeover.go", "return s.to - s.from + 1 - max(both, 0)", "return s.to - s.from + 1 - max(both, 0)*0")],
    ),
    (
        "takeover goes by other gateways than the clients ask",
        "./cmd/internal/orders TestRanksReadWhereClientsRead",
        [("datapath/simulate/takeover.go", "int(rank * uint64(gateways) / ranks)", "int((rank*uint64(gateways) + 1) / ranks)")],
    ),
    (
        "plan says of a takeover what gateways read that begin with nothing",
        "./integration TestGatewaysChangeUnderAJob",
        [("cmd/internal/orders/takeover.go", "s.Homes, int(s.Homes), n)", "s.Homes, 1, n)")],
    ),
    (
        "a regular expression keeps megabytes in the heap of each gateway",
        "./integration TestLittleIsKeptInTheHeap",
        [("cmd/internal/location/service.go", "`^[A-Za-z0-9._-]{1,64}$`", "`^[^\\s\\pC][^\\pC]{0,127}$`")],
    ),
    (
        "verify finds damage and exits as for any failure",
        "./cmd/millrace TestVerifyExitsWithThreeOnABadRange",
        [("cmd/millrace/exit.go", "case is(errCorrupt, chunkindex.ErrCorrupt, client.ErrCRC)", "case is(chunkindex.ErrCorrupt, client.ErrCRC)")],
    ),
    (
        "simulate gives every transfer the whole line",
        "./datapath/simulate TestLine",
        [("datapath/simulate/line.go", "l.free = max(l.free, l.clock.now) + seconds", "l.free = l.clock.now + seconds")],
    ),
    (
        "simulate forgets which chunks a reader comes for soon",
        "./datapath/simulate TestPredictionsAreWhatTheDataPathDoes",
        [("datapath/simulate/gateway.go", "return min(int64(c.Due), chunkcache.Soon-1)", "return chunkcache.Never")],
    ),
    (
        "simulate lets ranks ask for nothing ahead",
        "./datapath/simulate TestBounds",
        [("datapath/simulate/rank.go", "k.asked <= k.at+uint64(s.ReadAhead)", "k.asked <= k.at")],
    ),
    (
        "simulate asks ahead before a batch has come",
        "./datapath/simulate TestShortMemoryGoesToTheBatchFirst",
        [("datapath/simulate/readahead.go", "\t\ta.Come(r.at)\n", "\t\ta.Come(r.at)\n\t\ta.next()\n")],
    ),
    (
        "simulate forgets the link of the gateway that answers",
        "./datapath/simulate TestLinkBinds",
        [("datapath/simulate/cluster.go", "through(n, atEnd(n, done), from.up, to.down)", "through(n, atEnd(n, done), to.down)")],
    ),
    (
        "simulate lets a gateway fetch ahead what others own",
        "./datapath/simulate TestClusterHoldsMoreThanOne",
        [("datapath/simulate/gateway.go", "return g.cluster.owner(int32(chunk)) == g }", "return true }")],
    ),
    (
        "simulate gives a part of a fleet the whole store",
        "./datapath/simulate TestFewStandForMany",
        [("datapath/simulate/scale.go", "s.Rate*by, s.StoreRate*by", "s.Rate*by, s.StoreRate")],
    ),
    (
        "cmd/millrace takes whoever the authority has signed for a member",
        "./integration TestStrangersAreRefused",
        [("cmd/internal/node/peers.go", ", c.PeerAllow)\n", ", nil)\n")],
    ),
    (
        "cluster reads its file of gateways once and never again",
        "./integration TestFileJoin",
        [
            (
                "cluster/discovery/names.go",
                "\tcase SchemeFile:\n",
                "\tcase SchemeFile:\n\t\tif n.last[from[0]] != nil {\n\t\t\treturn n.last[from[0]]\n\t\t}\n",
            )
        ],
    ),
    (
        "cmd/millrace looks at what is alive once and never again",
        "./cmd/internal/node TestCollectionsAreNoticed",
        [("cmd/internal/node/collector.go", "\t\tcollections(ctx, ended)\n\t}, ended)", "\t}, ended)")],
    ),
    (
        "serve takes a key from any section of its file",
        "./cmd/millrace TestFaultsOfAConfigurationFile",
        [("cmd/internal/cli/settings.go", "fl == nil || SectionOf(fl) != s.key.Value", "fl == nil")],
    ),
    (
        "serve forgets what follows the first document of its file",
        "./cmd/millrace TestFaultsOfAConfigurationFile",
        [("cmd/internal/cli/settings.go", "case !errors.Is(read.Decode(&more), io.EOF):", "case read.Decode(&more) == nil && more.Line < 0:")],
    ),
    (
        "serve passes over a variable that is no setting",
        "./cmd/millrace TestOnlyServeReadsTheEnvironment",
        [("cmd/internal/cli/settings.go", "\tf.unknownVariables()\n", "")],
    ),
    (
        "the last right of a list in a file of settings replaces the others",
        "./cmd/millrace TestPrintedSettingsAreAccepted",
        [("cmd/internal/cli/settings.go", "case fl.Value.Type() == listKind:", "case false:")],
    ),
    (
        "serve --check prints lists in a form that --config takes apart otherwise",
        "./cmd/millrace TestPrintedSettingsAreAccepted",
        [("cmd/internal/cli/settings.go", "list, ok := fl.Value.(*value[[]string])\n\tif !ok {", "list, ok := fl.Value.(*value[[]string])\n\tif true || !ok {")],
    ),
    (
        "cmd/millrace prints errors as text where JSON was asked for",
        "./cmd/millrace TestReport_WithJSONFailuresAreJSON",
        [("cmd/internal/cli/root.go", 'a.JSON = slices.Contains(beforeDashes(args), "--json")', "a.JSON = false && slices.Contains(args, args[0])")],
    ),
    (
        "cmd/millrace --quiet swallows errors",
        "./cmd/millrace TestQuietLeavesErrorsAlone",
        [("cmd/internal/cli/report.go", 'fmt.Fprintf(a.faults, "%s: %s\\n"', 'fmt.Fprintf(a.Stderr, "%s: %s\\n"')],
    ),
    (
        "cmd/millrace prints the password of an argument that is one too many",
        "./cmd/millrace TestArgumentsThatAreMissingAreNamed",
        [("cmd/internal/cli/command.go", "f.app.Hide(args[a.most])", "args[a.most]")],
    ),
    (
        "shells get no words of a flag",
        "./cmd/millrace TestShellsCompleteWords",
        [("cmd/internal/cli/complete.go", "words = choice.choices()", "_ = choice")],
    ),
    (
        "long work is silent without a terminal",
        "./cmd/internal/cli TestALineEveryHalfMinuteWithoutATerminal",
        [("cmd/internal/cli/progress.go", "b.lines.Go(func() { b.print(a.Stderr) })", "_ = b.print")],
    ),
    (
        "a gateway without readers leaves an orchestrator no time",
        "./integration TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads",
        [("cmd/internal/node/node.go", "errors.Is(cause, ErrInterrupted) && s.unused()", "s.unused()")],
    ),
    (
        "Ctrl-C takes a gateway from readers between two batches",
        "./integration TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads",
        [("cmd/internal/node/interrupt.go", "pause > 0 && idle <", "pause < 0 && idle <")],
    ),
    (
        "Ctrl-C takes a member from its cluster at once",
        "./integration TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads",
        [("cmd/internal/node/interrupt.go", "if s.peers != nil || ", "if ")],
    ),
    (
        "a gateway with one request under way counts as unused",
        "./gateway TestQuietCountsEveryRequest",
        [("gateway/gateway.go", "if g.active.Load() > 0 { // asked first", "if g.active.Load() > 1 { // asked first")],
    ),
    (
        "serve forgets the memory to decode in when it checks the cache size",
        "./cmd/millrace TestServeCountsTheMemoryToDecodeIn",
        [("cmd/internal/node/fit.go", "leastBudget(resident+decoding+", "leastBudget(resident+")],
    ),
    (
        "the good half of a faulty file comes into use",
        "./cmd/internal/node TestTheSetChanges",
        [("cmd/internal/node/reload.go", "content.Text)\n	if err != nil {", "content.Text)\n	if err != nil && len(more.Datasets) == 0 {")],
    ),
    (
        "a dataset that cannot be followed keeps the others from it",
        "./cmd/internal/node TestFollowed",
        [("cmd/internal/node/reload.go", "reloadScope{at: atAll, apart: true}", "reloadScope{at: atAll}")],
    ),
    (
        "what a dataset held of the memory is not given back",
        "./cmd/internal/node TestNothingIsLeftOpen",
        [("cmd/internal/node/keeper.go", "			g.memory.Release()\n", "			_ = g.memory\n")],
    ),
    (
        "a gateway leaves the stores of datasets that are gone open",
        "./cmd/internal/node TestNothingIsLeftOpen",
        [("cmd/internal/node/keeper.go", "	p.users--\n", "")],
    ),
    (
        "memory is not looked at when datasets come",
        "./cmd/internal/node TestWhatIsNewMustFit",
        [("cmd/internal/node/fit.go", "planned); least > v.budget.Total() {", "planned); least > v.budget.Total() && len(all) == len(fresh) {")],
    ),
    (
        "a dataset that moved is read where it was",
        "./cmd/internal/node TestADatasetMoves",
        [("cmd/internal/node/keeper.go", "if p.Loc.Address() == l.Address() {", "if p.Loc.Name == l.Name {")],
    ),
    (
        "a dataset of another origin is closed for the one that is open",
        "./gateway TestAnotherOriginTakesItsPlace",
        [("gateway/serve.go", "if !open || served.origin != d.Origin {", "if !open {")],
    ),
    (
        "what another one has taken the place of is closed while it is used",
        "./gateway/catalog TestAnotherOneTakesItsPlace",
        [("gateway/catalog/catalog.go", "		if h.users > 0 {\n			left = true", "		if h.users > 9 {\n			left = true")],
    ),
    (
        "the file of datasets is not tried again",
        "./cmd/internal/node TestTheNodeLooks",
        [("cmd/internal/node/reload.go", "k.again = time.Now().Add(openAgain)", "_ = openAgain")],
    ),
    (
        "members do not hear of a generation before the next hello",
        "./cluster TestWhatIsServedChanges",
        [("cluster/cluster.go", "	c.cfg.Serves, c.stale = all, true\n	for _, k := range c.contacts {\n		k.awake()\n	}\n", "	c.cfg.Serves, c.stale = all, true\n")],
    ),
    (
        "gc removes subsets of a generation whose index stays",
        "./cmd/internal/garbage TestIndexThatStaysKeepsItsOwn",
        [("cmd/internal/garbage/garbage.go", 'case of != nil || generation == "":', 'case of != nil && generation == "":')],
    ),
    (
        "gc removes at once what a gateway may still serve",
        "./cmd/internal/garbage TestWhatIsLeftOfAGenerationGoes",
        [("cmd/internal/garbage/garbage.go", "case !f.older(f.unused.Since, f.opt.Grace):", "case false:")],
    ),
    (
        "gc --keep forgets which generations were current",
        "./cmd/internal/garbage TestKeep",
        [("cmd/internal/garbage/generations.go", "case !f.older(g.Until, keep):", "case false:")],
    ),
    (
        "gc removes a generation that losses are reported of",
        "./cmd/internal/garbage TestKeep",
        [("cmd/internal/garbage/generations.go", "case b.objects > 0 && !f.older(b.newest, keep):", "case false:")],
    ),
    (
        "gc takes the newest binding from a generation that it keeps",
        "./cmd/internal/garbage TestAKeptGenerationKeepsTheBindingThatItIsOpenedWith",
        [("chunkindex/unused.go", "found && !o.Modified.After(best.Modified):", "found && o.Modified.After(best.Modified):")],
    ),
    (
        "gc removes reports that came after the freeze",
        "./cmd/internal/garbage TestReportsGoWhenASnapshotHoldsThem",
        [("cmd/internal/garbage/garbage.go", "case at.Before(r.Newest):", "case false:")],
    ),
    (
        "gc removes what it only was to show",
        "./cmd/millrace TestGCShowsBeforeItRemoves",
        [("cmd/millrace/gc.go", "if !dry {", "if dry || !dry {")],
    ),
    (
        "fetch takes a file for a batch by its length",
        "./cmd/millrace TestFetchGoesOnWithWhatIsMissing",
        [("client/files.go", "crc32.Checksum(data, castagnoli()) != b.CRC {", "crc32.Checksum(data, castagnoli()) == ^b.CRC {")],
    ),
    (
        "fetch removes what another rank is writing",
        "./cmd/millrace TestFetchOfRanksGoesOn",
        [("client/files.go", "opt.WorldSize > 1 && strings.Contains(name, own) ||", "opt.WorldSize > 1 && own != name ||")],
    ),
    (
        "fetch goes on and fetches all batches again",
        "./cmd/millrace TestFetchGoesOnWithWhatIsMissing",
        [("client/request.go", 'opt.folder != "" && opt.folder.has(number, opt)', 'opt.folder != "" && !opt.folder.has(number, opt)')],
    ),
    (
        "subset list takes every split for the default one",
        "./cmd/millrace TestListsSayWhatLiesBesideADataset",
        [("chunkindex/selection/list.go", "x.Default = chosen[x.Digest]", "x.Default = len(chosen) > 0")],
    ),
    (
        "pack of a directory that is not there ends as any failure",
        "./cmd/millrace TestExitCodes_AgreeInAllCommands",
        [("chunkindex/pack/walk.go", "errors.Is(err, fs.ErrNotExist) {\n\t\treturn objstore", "errors.Is(err, fs.ErrExist) {\n\t\treturn objstore")],
    ),
    (
        "top shows a screen of gateways that all refuse",
        "./cmd/millrace TestExitCodes_AgreeInAllCommands",
        [("cmd/internal/top/top.go", "if err := silent(looks); err != nil {", "if err := silent(looks); err != nil && len(looks) > 1 {")],
    ),
    (
        "index suggests pack where it puts several samples into one",
        "./cmd/millrace TestIndex_SuggestsPackForPairs",
        [("chunkindex/build/kinds.go", "|| len(suffixes) < len(keys)", "|| len(suffixes) > len(keys)")],
    ),
]
