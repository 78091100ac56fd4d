"""TLS: certificates that are read again, who is taken, and what is sent over it."""

PLANTS = [
    (
        "certs lets a star of a pattern stand for a dot",
        "./internal/certs TestPatternsOfNames",
        [
            (
                "internal/certs/pattern.go",
                'strings.Split(strings.ToLower(pattern), "."), strings.Split(strings.ToLower(name), ".")',
                "[]string{strings.ToLower(pattern)}, []string{strings.ToLower(name)}",
            ),
        ],
    ),
    (
        "certs compares a pattern with the beginning of a name",
        "./internal/certs TestPatternsOfNames",
        [("internal/certs/pattern.go", "if len(wants) != len(parts) {", "if len(wants) > len(parts) {")],
    ),
    (
        "peer keeps connections for as long as the answerer does",
        "./cluster/peer TestExpiredCertificatesStopWorking",
        [("cluster/peer/renewal.go", "if r.now != nil && time.Now().After(r.until) {", "if r.now != nil && time.Now().IsZero() {")],
    ),
    (
        "peer keeps connections for as long as the asker does",
        "./cluster/peer TestExpiredCertificatesStopWorking",
        [("internal/port/age.go", "time.Now().After(end)", "time.Now().IsZero() && end.IsZero()")],
    ),
    (
        "certs never looks at the files again",
        "./internal/certs TestNewFilesAreUsedAtOnce",
        [("internal/certs/files.go", "if !changed && f.fault == nil {", "if f.now != nil {")],
    ),
    (
        "certs knows a file by its size and time alone",
        "./internal/certs TestFilesReplacedByLinks",
        [("internal/certs/files.go", " && os.SameFile(info, x.info)", "")],
    ),
    (
        "certs misses a second write within a tick of the clock",
        "./internal/certs TestWritesWithinOneTickAreSeen",
        [("internal/certs/files.go", "err == nil && now.Sub(info.ModTime()) > settling", "err == nil")],
    ),
    (
        "certs tells of a bad content with each connection",
        "./internal/certs TestNewFilesAreUsedAtOnce",
        [("internal/certs/files.go", "(changed || err == nil)", "(changed || err == nil || f.fault != nil)")],
    ),
    (
        "certs takes a new certificate that has expired",
        "./internal/certs TestNewFilesAreUsedAtOnce",
        [("internal/certs/identity.go", "case now.After(leaf.NotAfter):", "case now.After(leaf.NotAfter.Add(time.Hour)):")],
    ),
    (
        "certs never tries again what was of no use",
        "./internal/certs TestACertificateThatBeginsLater",
        [("internal/certs/files.go", "if !changed && f.fault == nil {", "if !changed {")],
    ),
    (
        "certs takes a client's certificate for a server",
        "./internal/certs TestFilesThatDoNotFitAreRefusedAtStart",
        [("internal/certs/port.go", "if len(uses) > 0 && ", "if len(uses) > 1 && ")],
    ),
    (
        "certs does not look at what a client shows",
        "./internal/certs TestClientCertificates",
        [("internal/certs/port.go", "tls.VerifyClientCertIfGiven", "tls.RequestClientCert")],
    ),
    (
        "certs demands a certificate of each client",
        "./internal/certs TestClientCertificates",
        [("internal/certs/port.go", "tls.VerifyClientCertIfGiven", "tls.RequireAndVerifyClientCert")],
    ),
    (
        "certs lets a session outlive its client CA",
        "./internal/certs TestNoSessionOutlivesItsCA",
        [("internal/certs/port.go", "SessionTicketsDisabled: true,", "SessionTicketsDisabled: false,")],
    ),
    (
        "certs speaks TLS 1.1",
        "./internal/certs TestWhatAPortSpeaks",
        [
            (
                "internal/certs/port.go",
                "\treturn &tls.Config{\n\t\tMinVersion: tls.VersionTLS12,",
                "\treturn &tls.Config{\n\t\tMinVersion: tls.VersionTLS10,",
            ),
            ("internal/certs/port.go", "MinVersion:             tls.VersionTLS12,", "MinVersion:             tls.VersionTLS10,"),
        ],
    ),
    (
        "certs lets a client choose HTTP/2, which nobody speaks",
        "./internal/certs TestWhatAPortSpeaks",
        [("internal/certs/port.go", 'NextProtos:             []string{"http/1.1"},', 'NextProtos:             []string{"h2", "http/1.1"},')],
    ),
    (
        "quiet writes a line for each stranger",
        "./cluster/peer TestStrangersDoNotFillTheLog",
        [("internal/loglimit/loglimit.go", "case now.Sub(t.at) < Interval:", "case now.Sub(t.at) < Interval && t.more > 9999:")],
    ),
    (
        "gateway writes a line for each handshake that fails",
        "./gateway TestStrangersDoNotFillTheLog",
        [("internal/loglimit/loglimit.go", "words[i] = Host(strings.TrimSuffix(w, \":\"))", "words[i] = strings.TrimSuffix(w, \":\")")],
    ),
    (
        "gateway says goodbye to idle connections, and waits until they have heard it",
        "./gateway TestDeafClientsKeepNoConnection",
        [("internal/port/idle.go", "\t\tc = secret.NetConn()\n", "\t\tc = secret\n")],
    ),
    (
        "gateway waits for the last word of TLS to a reader that has stalled",
        "./gateway TestStalledReadersOverTLS",
        [("internal/socket/socket.go", "\tif c.failed != nil {\n\t\treturn 0, c.failed\n\t}\n\tmore", "\tc.failed = nil\n\tmore")],
    ),
    (
        "gateway writes each sample as a record of TLS",
        "./internal/sending TestSamplesFillRecords",
        [("internal/sending/writer.go", "case !w.plain:", "case !w.plain && len(parts) > 1<<20:")],
    ),
    (
        "gateway sends the end of a record twice",
        "./gateway TestBatchesOverTLSAreTheSame",
        [("internal/sending/writer.go", "\t\t\t\tw.writeWhole(record[:], left)\n\t\t\t\tfilled = 0\n", "\t\t\t\tw.writeWhole(record[:], left)\n\t\t\t\tfilled = 1\n")],
    ),
    (
        "gateway calls the kernel for each record of TLS",
        "./cluster/peer TestRecordsGoToTheKernelTogether",
        [("internal/port/port.go", "\t\tConnContext:       socket.Keep,\n", "\t\tConnContext:       func(ctx context.Context, _ net.Conn) context.Context { return ctx },\n")],
    ),
    (
        "gateway keeps the end of an answer for bytes that never follow",
        "./internal/socket TestGatheredWritesArriveInOrder",
        [("internal/socket/socket.go", "\t\tif !more {\n", "\t\tif !more && len(p) > gatherBytes/2 {\n")],
    ),
    (
        "gateway loses the order of records that wait and those that do not",
        "./internal/socket TestGatheredWritesArriveInOrder",
        [("internal/socket/socket.go", "if len(c.waiting)+len(p) > gatherBytes {", "if len(c.waiting) > gatherBytes {")],
    ),
    (
        "gateway has no TLS on its admin port",
        "./integration TestClientsOverTLS",
        [("internal/port/port.go", "s.Serve(encrypt(limited[0], secret))", "s.Serve(limited[0])")],
    ),
    (
        "node forgets the client CA",
        "./integration TestClientsOverTLS",
        [("cmd/internal/node/certificates.go", ", CA: c.ClientCA", "")],
    ),
    (
        "node says that certificate files are in use which are refused",
        "./cmd/internal/node TestCertificatesAreTold",
        [("cmd/internal/node/certificates.go", "flag(c.Fault() != nil)", "flag(c.Fault() == nil)")],
    ),
]
