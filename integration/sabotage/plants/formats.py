"""Formats: an index describes the samples that the format's own libraries read."""

PLANTS = [
    (
        "index accepts samples that overlap",
        "./chunkindex/internal/layout TestDecodeTable_RejectsMisplacedSamples",
        [("chunkindex/internal/layout/record.go", "if off < c.end-c.overlap || off <= c.begin || length <= 0 || length > c.longest || off+length <= c.end ||", "if length <= 0 || length > c.longest ||")],
    ),
    (
        "tar scanner ignores the size in an extended header",
        "./chunkindex/format/webdataset TestScan_SizeInAnExtendedHeader",
        [("chunkindex/format/webdataset/scan.go", "if s.size >= 0 {", "if s.size > 1<<60 {")],
    ),
    (
        "tfrecord scanner ignores the checksum of the data",
        "./chunkindex/format/tfrecord TestScan_VerifiesEveryByte",
        [("chunkindex/format/tfrecord/scan.go", "if len(foot) == footSize && binary.", "if len(foot) < footSize && binary.")],
    ),
    (
        "index stores bytes that two samples share twice",
        "./chunkindex/build TestCutter_AnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "c.open.feed(c.hold[c.sample.shared:])", "c.open.feed(c.hold)")],
    ),
    (
        "Arrow reader starts short texts of a view one byte early",
        "./integration TestRowsAsPyarrowReadsThem",
        [("chunkindex/codec/arrowbatch/batch.go", "\t\treturn v[4 : 4+n]\n", "\t\treturn v[3 : 3+n]\n")],
    ),
    (
        "Parquet reader ignores the checksums of pages",
        "./chunkindex/codec/rowgroup TestDecode_VerifiesChecksums",
        [('chunkindex/codec/rowgroup/column.go', 'if h.hasCRC && crc32.ChecksumIEEE(body) != uint32(h.crc) {', 'if h.hasCRC && false && crc32.ChecksumIEEE(body) != uint32(h.crc) {')],
    ),
]
