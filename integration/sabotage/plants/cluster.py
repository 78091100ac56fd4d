"""Planted bugs of gateways that are one cache."""

PLANTS = [
    (
        "cluster leaves chunks with an owner that is ejected",
        "./cluster TestFailedReadEjects",
        [("cluster/view.go", "if m.state == Gone || m.state == Ejected {", "if m.state == Gone {")],
    ),
    (
        "cluster trusts the owners of before when a member has gone",
        "./cluster TestLeaving",
        [("cluster/view.go", "if m.state == Gone || m.state == Ejected {", "if m.state == Ejected {")],
    ),
    (
        "cluster takes in the gateways of another cluster",
        "./cluster TestStrangersAreRefused",
        [("cluster/check.go", "case h.Cluster != c.cfg.Name:", "case false:")],
    ),
    (
        "cluster asks a member that it has ejected",
        "./cluster TestFailedReadEjects",
        [("cluster/read.go", "\tif m.state == Ejected {\n\t\treturn r, errEjected\n\t}\n", "")],
    ),
    (
        "cluster lets an ejected member in again at its first hello",
        "./cluster TestCoolDownDoubles",
        [("cluster/member.go", "m.probe != nil || begun.Before(m.until)", "m.probe != nil")],
    ),
    (
        "cluster takes the second of two machines of one name",
        "./cluster TestTwins",
        [("cluster/check.go", "m.state == Gone || m.Draining || m.at.misses > 0 {", "true {")],
    ),
    (
        "cluster goes by what it heard of a gateway that it cannot reach",
        "./cluster TestAsymmetricLink",
        [
            ("cluster/check.go", "\t\t\tk.awake()\n", "\t\t\tc.alive(k, h, time.Now())\n"),
            ("cluster/check.go", '\t"fmt"\n', '\t"fmt"\n\t"time"\n'),
        ],
    ),
    (
        "cluster believes anybody who says that a member goes",
        "./cluster TestNobodySpeaksForAnother",
        [("cluster/check.go", "\town.Held = c.heirs[h.ID]\n", "\town.Held = c.heirs[h.ID]\n\tif m := c.members[h.ID]; m != nil && h.Draining {\n\t\tm.Draining = true\n\t\tc.turn(m, Draining, \"\")\n\t}\n")],
    ),
    (
        "cluster lets one host name any number of addresses",
        "./cluster TestOneHostNamesFewAddresses",
        [("cluster/contact.go", "if named >= mostNamed {", "if named < 0 {")],
    ),
    (
        "cluster is ready before it has met anybody",
        "./cluster TestReadyOnceItHasMetAnother",
        [("cluster/ready.go", "c.listed && asked == all", "c.listed && asked <= all")],
    ),
    (
        "cluster waits for every gateway that it knows",
        "./cluster TestReadyOnceItHasMetAnother",
        [("cluster/ready.go", "c.ready = c.met() || c.listed", "c.ready = c.listed")],
    ),
    (
        "cluster takes whoever answers for one that serves its datasets",
        "./cluster TestReadyOnceAllWereAsked",
        [("cluster/ready.go", "if _, ok := c.cfg.Serves[key]; ok {", "if key.Dataset != \"\" {")],
    ),
    (
        "cluster waits for somebody to answer",
        "./cluster TestFirstOfAllIsReadyAtOnce",
        [("cluster/contact.go", "\tk.asked = true\n", "\tk.asked = err == nil\n")],
    ),
    (
        "cluster waits for ever",
        "./cluster TestReadyAfterSomeSecondsAnyway",
        [("cluster/cluster.go", "\t\t\tc.stopWaiting()\n", "")],
    ),
    (
        "cluster waits again when others come",
        "./cluster TestReadyForEver",
        [("cluster/ready.go", "\tif c.ready {\n\t\treturn\n\t}\n\tasked, all", "\tasked, all")],
    ),
    (
        "gateway of a cluster is ready as soon as its datasets are open",
        "./integration TestReadyOnceTheOthersAreMet",
        [("cmd/internal/node/node.go", "cfg.Cluster, cfg.Awaits = s.clusterPage, s.peers.cluster.Awaits", "cfg.Cluster = s.clusterPage")],
    ),
    (
        "gateway that drains says that it starts",
        "./gateway TestStarting",
        [("gateway/health.go", "\tif begun, _ := g.draining(); begun {\n\t\tp.Code", "\tif begun, _ := g.draining(); begun && g.cfg.Awaits == nil {\n\t\tp.Code")],
    ),
    (
        "peer answers another version of the protocol",
        "./cluster/peer TestCodes",
        [("cluster/peer/handler.go", "case !slices.Equal(got, []string{strconv.Itoa(Version)}):", "case len(got) > 9:")],
    ),
    (
        "peer answers another cluster",
        "./cluster/peer TestOtherClustersAreToldApart",
        [("cluster/peer/handler.go", "!slices.Equal(got, []string{own}) {", "len(got) > 9 {")],
    ),
    (
        "peer takes a body that is too short",
        "./cluster/peer TestTransportsThatSendMoreThanTheySay",
        [("cluster/peer/read.go", "if _, err := io.ReadFull(in, p); err != nil {", "if n, err := io.ReadFull(in, p); err != nil && n == 0 {")],
    ),
    (
        "peer takes a body of any length",
        "./cluster/peer TestPeersThatLie",
        [("cluster/peer/read.go", "if resp.ContentLength != total {", "if resp.ContentLength < 0 {")],
    ),
    (
        "peer does not compare a query's checksum",
        "./cluster/peer TestDamagedQueriesAreRefused",
        [("cluster/peer/codec.go", "if crc32.Checksum(text, castagnoli()) != le", "if false && crc32.Checksum(text, castagnoli()) != le")],
    ),
    (
        "peer makes room for as many chunks as a query promises",
        "./cluster/peer TestHostileQueriesAreRefused",
        [("cluster/peer/codec.go", "q.Chunks = make([]ChunkQuery, len(table)/chunkBytes)", "q.Chunks = make([]ChunkQuery, len(table)/chunkBytes, 1<<20)")],
    ),
    (
        "peer gives no sign of life while it loads",
        "./cluster/peer TestSlowStoresAreWaitedFor",
        [("cluster/peer/handler.go", "\t\t\t\tout.WriteHeader(http.StatusProcessing)\n", "")],
    ),
    (
        "peer lets whoever the CA has signed in",
        "./cluster/peer TestWhoMayAskWhom",
        [("internal/certs/peer.go", "if len(p.allow) == 0 {", "if len(p.allow) < 9 {")],
    ),
    (
        "peer waits for ever for a body that rests",
        "./cluster/peer TestSilentPeersAreGivenUp",
        [("cluster/peer/watchdog.go", "left := min(w.until.Sub(now), w.last.Add(w.silence).Sub(now))", "left := w.until.Sub(now)")],
    ),
    (
        "cluster forgets its members when the name service fails",
        "./cluster/discovery TestNamesAreLookedUpAgain",
        [("cluster/discovery/names.go", "\t\tn.failing[name] = true\n", "\t\tn.failing[name] = true\n\t\tdelete(n.last, name)\n")],
    ),
    (
        "cluster ejects all members that are silent together",
        "./cluster TestSilenceOfAllEjectsHalf",
        [("cluster/ejection.go", "if m.Draining || !c.most(", "if true || !c.most(")],
    ),
    (
        "cluster waits for the next hello of a member that has failed a read",
        "./cluster TestSilenceOfAllEjectsHalf",
        [("cluster/ejection.go", "\tm.at.awake() // a hello", "\t// a hello")],
    ),
    (
        "cluster asks those who came with it for chunks that nobody of them has",
        "./cluster TestSeveralComeBackTogether",
        [("cluster/view.go", "!s.recent || !c.newcomer(&m)", "true")],
    ),
    (
        "cluster says nothing of a change of owners",
        "./cluster TestFailedReadEjects",
        [("cluster/view.go", "s.number = is.number + 1", "s.number = is.number")],
    ),
    (
        "peer counts a question that has ended as one that is asked",
        "./cluster/peer TestReadsOfOnePeerTakeTurns",
        [("cluster/peer/read.go", "\tdefer give()\n", "\t_ = give\n")],
    ),
    (
        "cluster blames a member for what nobody can do",
        "./cluster TestRefusalsThatOthersDoNotGive",
        [("cluster/read.go", "r.outdone = instead(ctx, false) == nil", "r.outdone = instead(ctx, false) == nil || r.member != nil")],
    ),
    (
        "cluster never gives up a member that refuses everything",
        "./cluster TestRefusalsThatOthersDoNotGive",
        [("cluster/ejection.go", "errors.Is(err, peer.ErrNoRoom), refused && (", "refused && no.Code == \"\" && (")],
    ),
    (
        "cluster asks another member beside any that is late",
        "./cluster TestHedgesAreFew",
        [("cluster/hedge.go", "if c.hedges < 1 {", "if c.hedges < -1e9 {")],
    ),
    (
        "cluster asks beside a late member twice",
        "./cluster TestAQuestionIsHedgedOnce",
        [("cluster/hedge.go", "if !loads && !r.hedged {", "if !loads {")],
    ),
    (
        "cluster ejects all members that are overloaded together",
        "./cluster TestHalfOfTheMembersStay",
        [("cluster/ejection.go", "return 2*so > all", "return so > all")],
    ),
    (
        "cluster ejects the first of all members that are slow together",
        "./cluster TestNobodyIsEjectedWhereAllAreSlow",
        [("cluster/ejection.go", "return o.state == Ejected || m.sickAt.Sub(o.poorAt) < forgiven", "return o == m || o.state == Ejected")],
    ),
    (
        "cluster forgives a late member each question that nobody else was asked beside it",
        "./cluster TestNobodyIsEjectedWhereAllAreSlow",
        [("cluster/read.go", "if !m.poorAt.After(r.begun) {", "if !r.hedged {")],
    ),
    (
        "cluster finds the other side of a cut one by one again",
        "./cluster TestCutEndsForAllAtOnce",
        [("cluster/contact.go", "\t\tc.retry()\n", "")],
    ),
    (
        "cluster greets who is no member any more without a pause",
        "./cluster TestEjectedMemberIsNotGreetedWithoutEnd",
        [("cluster/contact.go", "m.state == Ejected {", "m.state != Alive {")],
    ),
    (
        "cluster greets without a pause where an ejected member was before",
        "./cluster TestEjectedMemberIsNotGreetedWithoutEnd",
        [("cluster/contact.go", "k.misses == 0 && !k.alias && m", "k.misses == 0 && m")],
    ),
    (
        "cluster lets a late member in again by its hello",
        "./cluster TestLateMemberIsEjected",
        [("cluster/member.go", "m.probe != nil || begun.Before(m.until)", "begun.Before(m.until)")],
    ),
    (
        "datapath reads single samples where owners fail",
        "./datapath TestOwnersThatAreGoneOneAfterAnother",
        [("datapath/choose.go", "return b.origin != fromRank && (", "return b.origin == fromPeer && (")],
    ),
    (
        "peer lets a member take another one's name",
        "./cluster/peer TestNamesAreThoseOfCertificates",
        [("cluster/peer/handler.go", "if !s.cfg.SharedCert {", "if false {")],
    ),
    (
        "peer takes any member's answer to a hello",
        "./cluster/peer TestNamesAreThoseOfCertificates",
        [("cluster/peer/client.go", "err != nil && !c.cfg.SharedCert {", "err != nil && c.cfg.SharedCert {")],
    ),
    (
        "peer decodes questions that nobody has paid for",
        "./integration TestQuestionsArePaidFromTheBudget",
        [("cluster/peer/handler.go", "done, ok := s.reserve(times * n)", "done, ok := s.reserve(0 * times)")],
    ),
    (
        "peer reads questions before it has memory for them",
        "./cluster/peer TestQuestionsArePaidFor",
        [("cluster/peer/handler.go", "done, ok := s.reserve(times * n)", "done, ok := s.reserve(n)")],
    ),
    (
        "cluster tells one member of what another one is to take over",
        "./cluster TestLeaving",
        [("cluster/check.go", "\town.Held = c.heirs[h.ID]\n", "\tfor _, held := range c.heirs {\n\t\town.Held = append(own.Held, held...)\n\t}\n")],
    ),
    (
        "datapath answers for more ranges than a chunk has samples",
        "./datapath TestQuestionsThatAreRefused",
        [("datapath/answer.go", "len(w.Ranges) > max(int(desc.Samples), 1)", "len(w.Ranges) > 1<<40+max(int(desc.Samples), 1)")],
    ),
    (
        "cluster asks others for chunks of a store that is cold",
        "./cluster TestColdStoreIsWaitedFor",
        [("cluster/cluster.go", "slowest: loadCold / loadTimes", "slowest: 0")],
    ),
    (
        "cluster reads its list of gateways from a pipe",
        "./cluster/discovery TestListsThatAreNone",
        [("cluster/discovery/join.go", "case !info.Mode().IsRegular():", "case info.IsDir():")],
    ),
    (
        "cluster lets an ejected member wait for the next hello",
        "./cluster TestEjectedMemberIsBackInTime",
        [("cluster/ejection.go", "\tm.at.awake() // the next hello is due when the member may be back", "")],
    ),
    (
        "cluster puts what it asks of another member below the first question",
        "./cluster TestQuestionsAreSiblings",
        [
            (
                "cluster/read.go",
                "\tr, err := c.begin(id, instead)\n",
                '\tctx, span := tracing.Call(ctx, "all questions")\n\tdefer span.End()\n\tr, err := c.begin(id, instead)\n',
            ),
            (
                "cluster/read.go",
                '\t"github.com/millrace-data/millrace/cluster/peer"\n',
                '\t"github.com/millrace-data/millrace/cluster/peer"\n\t"github.com/millrace-data/millrace/internal/tracing"\n',
            ),
        ],
    ),
    (
        "cluster names another span than that of the question to the member",
        "./cluster TestQuestionsAreSiblings",
        [("cluster/hedge.go", "\tctx, span := tracing.Call(ctx, ", "\t_, span := tracing.Call(ctx, ")],
    ),
    (
        "peer does not tell the gateway that it asks of the trace",
        "./cluster/peer TestAnswersAreOfTheAskersTrace",
        [("cluster/peer/client.go", "\ttracing.Inject(ctx, req.Header)\n", "\ttracing.Inject(context.Background(), req.Header)\n")],
    ),
    (
        "peer records answers to questions that are not recorded",
        "./cluster/peer TestAnswersAreOfTheAskersTrace",
        [("cluster/peer/handler.go", 'if r.Header.Get("Traceparent") == "" {', "if false {")],
    ),
    (
        "the hellos of a late member make the limit for its answers",
        "./cluster TestHellosOfALateMemberAreNoMeasure",
        [("cluster/hedge.go", "all[(len(all)-1)/2]", "all[len(all)/2]")],
    ),
    (
        "of two gateways one that refuses everything is asked for ever",
        "./cluster TestRefusingMemberOfAPairIsEjected",
        [("cluster/ejection.go", "if errors.Is(err, errLate) && c.pair() {", "if c.pair() {")],
    ),
    (
        "cluster lets one of two gateways eject the other for being late",
        "./cluster TestLateMemberOfAPairStays",
        [("cluster/ejection.go", "return others == 1", "return others == 0")],
    ),
    (
        "cluster goes on with the owners of before when a member is ejected",
        "./cluster TestFailedReadEjects",
        [("cluster/cluster.go", "\tif c.stale {\n", "\tif c.stale && len(c.notes) == 0 {\n")],
    ),
    (
        "cluster takes the members of one dataset for those of another one",
        "./cluster TestWhatIsServedChanges",
        [("cluster/view.go", "if slices.Equal(v.Members(), of) {", "if len(v.Members()) > 0 {")],
    ),
]
