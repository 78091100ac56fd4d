"""Planted bugs of Parquet and of rows."""

ROWGROUP = "chunkindex/codec/rowgroup"

PLANTS = [
    (
        "times of old Parquet files lose their zone",
        "./integration TestFilesOfOtherProjects",
        [(f"{ROWGROUP}/types.go", "unit: int(e.converted) - 8, utc: true}", "unit: int(e.converted) - 8}")],
    ),
    (
        "a short text in a view of Arrow begins one byte early",
        "./integration TestRowsAsPyarrowReadsThem",
        [("chunkindex/codec/arrowbatch/batch.go", "\t\treturn v[4 : 4+n], nil\n", "\t\treturn v[3 : 3+n], nil\n")],
    ),
    (
        "a place outside a dictionary is looked up",
        "./chunkindex/codec/rowgroup TestHostilePages",
        [(f"{ROWGROUP}/values.go", "if int64(i) >= int64(p.d.n) {", "if int64(i) > int64(p.d.n) {")],
    ),
    (
        "memory is taken for what a page promises",
        "./chunkindex/codec/rowgroup TestHostilePages",
        [
            (f"{ROWGROUP}/column.go", "if raw > most(codec, len(body)) {", "if raw > 1<<40 {"),
            (f"{ROWGROUP}/memory.go", "if n > m.left {", "if n > 1<<40 {"),
        ],
    ),
    (
        "a list of Thrift takes memory for as many elements as it promises",
        "./chunkindex/codec/rowgroup TestHostileFooters",
        [
            (
                f"{ROWGROUP}/thrift.go",
                "\tif n > uint64(len(t.b)-t.off) {\n\t\treturn errThrift\n\t}\n\tfor range n {\n\t\tif err := element",
                "\t_ = make([]byte, n)\n\tfor range n {\n\t\tif err := element",
            )
        ],
    ),
    (
        "the page before is overwritten while a row still has values of it",
        "./chunkindex/codec/rowgroup TestRowsAreWhatPyarrowReads",
        [(f"{ROWGROUP}/column.go", "\tif c.most.rep == 0 {\n\t\tc.held[1]", "\tif c.most.rep >= 0 {\n\t\tc.held[1]")],
    ),
    (
        "a row group that needs more memory than is reserved is indexed all the same",
        "./chunkindex/codec/rowgroup TestMemoryIsBounded",
        [(f"{ROWGROUP}/decode.go", "if d.room-d.mem.left > Room(decoded) {", "if d.room-d.mem.left > 1000*Room(decoded) {")],
    ),
    (
        "checksums of pages are not compared",
        "./chunkindex/codec/rowgroup TestChecksums",
        [
            (
                f"{ROWGROUP}/column.go",
                "if h.hasCRC && crc32.ChecksumIEEE(body) != uint32(h.crc) {",
                "if h.hasCRC && false && crc32.ChecksumIEEE(body) != uint32(h.crc) {",
            )
        ],
    ),
    (
        "bits of a null bitmap count from the highest",
        "./chunkindex/rows TestExample",
        [("chunkindex/rows/builder.go", "b.bitmap[bit/8] |= 1 << (bit % 8)", "b.bitmap[bit/8] |= 128 >> (bit % 8)")],
    ),
    (
        "a struct that is present and empty is taken for a null",
        "./chunkindex/rows TestExample",
        [("chunkindex/rows/layout.go", "if len(more) == len(dst) && s.Bit >= 0 {", "if false && s.Bit >= 0 {")],
    ),
    (
        "a chunk ends inside a row group",
        "./chunkindex/build TestRowGroupsJoin",
        [("chunkindex/build/cut.go", "cut = own.Decoded == s.start && (full || !fits)", "cut = full || !fits")],
    ),
    (
        "a row group does not say where it ends before it is read",
        "./chunkindex/build TestRowGroupsJoin",
        [("chunkindex/build/cut.go", "fits := own.StoredEnd > 0 && k.rec.Length", "fits := own.StoredEnd > 1<<40 && k.rec.Length")],
    ),
    (
        "files of another schema are read",
        "./chunkindex/build TestParquetIsReused",
        [("chunkindex/format/rowscan/files.go", "if !bytes.Equal(own, d.schema) {", "if bytes.Equal(own, nil) {")],
    ),
    (
        "files that name classes otherwise than the first one are read",
        "./chunkindex/format/parquet TestClasses",
        [("chunkindex/format/rowscan/files.go", "ok && !slices.Equal(its, names)", "ok && len(its) != len(names)")],
    ),
    (
        "what a file says of its classes goes before its README",
        "./chunkindex/format/parquet TestClasses",
        [("chunkindex/format/rowscan/files.go", "maps.Copy(classes, card)", "maps.Copy(card, classes)")],
    ),
    (
        "a README names the classes of the first configuration, whichever was chosen",
        "./chunkindex/build TestReadmeNamesClasses",
        [("chunkindex/build/splits.go", "hub.CardClasses(card, b.config)", 'hub.CardClasses(card, "")')],
    ),
    (
        "columns without integers have classes",
        "./chunkindex/rows TestClasses",
        [("chunkindex/rows/classes.go", "if n.integer() {", "if n.Kind == Fixed {")],
    ),
    (
        "names of classes are taken in the order of the README, not by their numbers",
        "./chunkindex/format/hub TestCardClasses",
        [("chunkindex/format/hub/card.go", "names[number], named[number] =", "names[i], named[number] =")],
    ),
    (
        "the elements of lists have no classes",
        "./integration TestHuggingFaceNulls",
        [("chunkindex/rows/classes.go", 'case n.Name != "":', "default:")],
    ),
    (
        "rows of a second split are those of the first",
        "./integration TestHuggingFace",
        [("chunkindex/build/splits.go", "r.name == split\n\t\tif", "r.name == rules[0].name\n\t\tif")],
    ),
    (
        "the children of nested columns are not told",
        "./chunkindex/format/parquet TestFields",
        [("chunkindex/framing/rows.go", "for _, c := range n.Children {", "for _, c := range n.Children[:0] {")],
    ),
    (
        "the parameters of a chunk are those of its first frame alone",
        "./chunkindex/build TestRowGroupsJoin",
        [("chunkindex/format/rowscan/reader.go", "r.frames[to].decoded <= last {", "r.frames[to].decoded <= first {")],
    ),
    (
        "columns that are left out are read all the same",
        "./chunkindex/codec/rowgroup TestPieces",
        [(f"{ROWGROUP}/file.go", "\t\tread = rows.Join(ranges)\n", "\t\tread = rows.Join([]rows.Range{{Offset: from, Length: to - from}})\n")],
    ),
    (
        "a column's place is that in the row group, and not in what is read of it",
        "./chunkindex/codec/rowgroup TestChosenColumns",
        [(f"{ROWGROUP}/file.go", "rows.Place(read, c.begin())", "c.begin() - from")],
    ),
    (
        "all columns by their names are another generation than no names",
        "./chunkindex/codec/rowgroup TestPieces",
        [(f"{ROWGROUP}/file.go", "\tif c.All() {\n", "\tif c.All() && len(names) == 0 {\n")],
    ),
    (
        "a name of a column that takes nothing is passed over beside one that does",
        "./chunkindex/rows TestChoose",
        [("chunkindex/rows/choose.go", "\t\tif !used {\n", "\t\tif !used && len(left) == 0 {\n")],
    ),
    (
        "a struct that is chosen has none of its fields",
        "./chunkindex/rows TestChoose",
        [("chunkindex/rows/choose.go", 'c.choose(f.Children, path+".", taken)', 'c.choose(f.Children, path+".", false)')],
    ),
    (
        "a chunk of several extents reserves memory for the longest one",
        "./chunkindex/build TestChosenColumnsAreExtents",
        [("chunkindex/index.go", "\t\t\tc.Stored += n\n", "\t\t\tc.Stored = max(c.Stored, n)\n")],
    ),
    (
        "extents of one chunk of row groups may overlap",
        "./chunkindex/build TestHostileExtentsOfRowGroups",
        [("chunkindex/internal/layout/record.go", "case packed && !o.part:", "case packed:")],
    ),
    (
        "damage behind the first extent of a chunk is said to be in it",
        "./chunkindex/build TestDamageInChosenColumns",
        [("chunkindex/verify.go", "first, last := extents[0], extents[len(extents)-1]", "first, last := extents[0], extents[0]")],
    ),
    (
        "--fields without a name means all columns",
        "./cmd/millrace TestIndexFlagsReachTheFormat",
        [("cmd/millrace/index.go", 'f.Set.Changed("fields") && len(x.opt.Hints.Fields) == 0', 'f.Set.Changed("fields") && len(x.opt.Hints.Fields) < 0')],
    ),
    (
        "a gateway reads the gaps between columns that were chosen",
        "./integration TestChosenColumnsAloneAreRead",
        [
            ("datapath/policy/policy.go", "GapLimit = 64 << 10", "GapLimit = 64 << 20"),
            ("datapath/policy/policy.go", "wasted+gap <= (wanted+length)/8 &&", "wasted+gap <= 1<<30 &&"),
        ],
    ),
    (
        "the model of reads takes a chunk of some columns for loose objects",
        "./datapath/simulate TestFormsOfChunks",
        [("datapath/simulate/request.go", "c.Extents > 0 && c.Stored == 0 && ", "c.Extents > 0 && ")],
    ),
]
