"""Cluster: its gateways are one cache, agree on owners, and trust no peer's bytes."""

PLANTS = [
    (
        "cluster leaves chunks with an ejected owner",
        "./cluster TestFailedReadEjects",
        [("cluster/view.go", "if m.state == Gone || m.state == Ejected {", "if m.state == Gone {")],
    ),
    (
        "cluster admits gateways of another cluster",
        "./cluster TestStrangersAreRefused",
        [("cluster/check.go", "case h.Cluster != c.cfg.Name:", "case false:")],
    ),
    (
        "cluster counts a gateway that it cannot reach as alive",
        "./cluster TestAsymmetricLink",
        [
            ("cluster/check.go", "\t\tc.seek(remote)\n", "\t\tfor _, k := range c.contacts {\n\t\t\tc.alive(k, h, time.Now())\n\t\t}\n"),
            ("cluster/check.go", '\t"fmt"\n', '\t"fmt"\n\t"time"\n'),
        ],
    ),
    (
        "cluster lets any member announce another member's departure",
        "./cluster TestMet_NoHelloForAnother",
        [("cluster/check.go", "\town.Held = c.heirs[h.ID]\n", "\town.Held = c.heirs[h.ID]\n\tif m := c.members[h.ID]; m != nil && h.Draining {\n\t\tm.Draining = true\n\t\tc.turn(m, Draining, \"\")\n\t}\n")],
    ),
    (
        "cluster ejects all members that are silent together",
        "./cluster TestSilenceOfAllEjectsHalf",
        [("cluster/ejection.go", "if m.Draining || !c.most(", "if true || !c.most(")],
    ),
    (
        "gateway of a cluster is ready before it has met the others",
        "./integration TestReadyOnceTheOthersAreMet",
        [("cmd/internal/node/node.go", "cfg.Cluster, cfg.Awaits = s.clusterPage, s.peers.cluster.Awaits", "cfg.Cluster = s.clusterPage")],
    ),
    (
        "peer accepts a body that is too short",
        "./cluster/peer TestTransportsThatSendMoreThanTheySay",
        [("cluster/peer/read.go", "if _, err := io.ReadFull(in, p); err != nil {", "if n, err := io.ReadFull(in, p); err != nil && n == 0 {")],
    ),
    (
        "datapath serves a peer's answer without comparing it with the index",
        "./datapath TestPeers_FaultsChangeNoByte",
        [("datapath/question.go", "if checksum(x.memory(r)) == r.CRC32C {", "if true {")],
    ),
    (
        "datapath forwards a peer's query to other peers",
        "./datapath TestAnswer_NotOwnedReadsStore",
        [("datapath/answer.go", "assemblyOf(part{source: s, request: b, near: b, tries: true}).read(ctx)", "assemblyOf(part{source: s, request: b}).readPlanned(ctx)")],
    ),
    (
        "datapath trusts an owner of an outdated view",
        "./datapath TestOwners_FollowView",
        [("datapath/owners.go", "if is != nil && is.view == view {", "if is != nil {")],
    ),
    (
        "datapath keeps a former owner's chunk without comparing it with the index",
        "./datapath TestFormer_Failures",
        [("datapath/former.go", "if !s.intact(desc, dst, checksum(dst)) {", "if false {")],
    ),
    (
        "datapath names another rank to peers than the one that reads",
        "./integration/clustersim TestHistories",
        [("datapath/owners.go", "b.reader.Plan, b.reader.Cursor.Epoch = nil, nil", "b.reader.Plan, b.reader.Cursor.Epoch, b.reader.Rank = nil, nil, at.Rank/2")],
    ),
    (
        "lookahead prefetches for ranks that read at other gateways",
        "./integration TestPlainGatewaysReadTheStoreOnce/4_ranks",
        [("datapath/lookahead/readers.go", "return g.comeFor(p, chunk) && (", "return (")],
    ),
]
