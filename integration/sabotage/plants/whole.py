"""Whole answers: every byte of a 200 is compared with the index before it is sent, and clients compare it again."""

PLANTS = [
    (
        "datapath accepts a chunk without comparing its CRC",
        "./datapath TestStoreErrorsNameTheRange",
        [("datapath/store.go", "return crc == desc.CRC32C &&", "return desc.CRC32C == desc.CRC32C &&")],
    ),
    (
        "datapath reads without an expected ETag",
        "./integration TestDamageUnderARunningGateway",
        [("datapath/reads.go", "ETag: shard.ETag, VersionID", 'ETag: "", VersionID')],
    ),
    (
        "datapath closes a batch's leases before its body is read",
        "./datapath TestSimulatedScenarios",
        [
            (
                "datapath/assembly.go",
                "\treturn batch.NewBody(a.segments,",
                "\tfor _, p := range a.parts {\n\t\tif p.leases != nil {\n\t\t\tp.leases.Close()\n\t\t}\n\t}\n\treturn batch.NewBody(a.segments,",
            )
        ],
    ),
    (
        "datapath accepts a damaged chunk because it decompresses",
        "./datapath TestCompressedChunksThatAreWrong",
        [("datapath/reads.go", "return s.intact(desc, p.data, sum)", "return p.pieces > 0 && desc.Codec != codec.None || s.intact(desc, p.data, sum)")],
    ),
    (
        "datapath shares a chunk between datasets without comparing its SHA-256",
        "./datapath TestTwoNamesShareOneChunk",
        [("datapath/path.go", "if !p.cfg.CheckSHA {", "if false {")],
    ),
    (
        "datapath accepts a chunk from disk without comparing its SHA-256",
        "./datapath TestForgedFilesAreFoundBySHA",
        [("datapath/disk.go", "if s := l.source; s.path.cfg.CheckSHA && !s.intact(", "if s := l.source; false && !s.intact(")],
    ),
    (
        "diskcache serves a file without comparing its checksum",
        "./datapath/diskcache TestNoFlippedBitIsServed",
        [("datapath/diskcache/read.go", "if sum != p.CRC32C {", "if false {")],
    ),
    (
        "gateway sends the end of a TLS record twice",
        "./gateway TestBatchesOverTLSAreTheSame",
        [("internal/sending/writer.go", "\t\t\t\tw.writeWhole(record[:], left)\n\t\t\t\tfilled = 0\n", "\t\t\t\tw.writeWhole(record[:], left)\n\t\t\t\tfilled = 1\n")],
    ),
    (
        "gateway resumes a slow batch of several at the wrong byte",
        "./gateway TestSlowBodiesSettle",
        [("internal/sending/writer.go", "settle(w.Bytes - begin)", "settle(w.Bytes - 0*begin)")],
    ),
    (
        "gateway leaves the last bytes out of a batch's checksum",
        "./gateway TestBatchesAreTheStoredBytes",
        [("gateway/body/body.go", "for i := range b.pieces {\n\t\tp := &b.pieces[i]\n\t\tif", "for i := range b.pieces[:len(b.pieces)-1] {\n\t\tp := &b.pieces[i]\n\t\tif")],
    ),
    (
        "Go client ignores the checksum of a batch",
        "./client TestFaultsOfOneTransferAreHidden",
        [("client/transfer.go", "; got != b.CRC {", "; got != got {")],
    ),
    (
        "Python client accepts a body that ends early",
        "client/python/tests/test_faults.py test_bodies_are_cut",
        [("client/python/millrace/_http/gateways.py", 'raise ConnectionError("the connection was closed")', "break")],
    ),
    (
        "reference client in Python accepts a damaged body",
        "conformance client python",
        [("examples/readers/reader.py", "if crc32c(body) == int(", "if crc32c(body) != 0 or int(")],
    ),
]
