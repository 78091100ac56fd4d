"""Planted bugs of the index and of formats."""

PLANTS = [
    (
        "a pattern that leaves objects out takes them alone",
        "./chunkindex/build TestMatches",
        [("chunkindex/build/survey.go", "return !Matches(others, key)", "return Matches(others, key)")],
    ),
    (
        "who asks for all names of parts drives out what batches need",
        "./chunkindex TestDetailsAreKept",
        [("chunkindex/details.go", "\tunkept.tables = nil\n", "")],
    ),
    (
        "an index is fetched anew for each block",
        "./chunkindex TestIndexInPart",
        [("chunkindex/pages.go", "_, _ = p.file.WriteAt(b, p.begin+i*layout.ProofSize)", "_ = p.file")],
    ),
    (
        "chunkindex lets samples overlap",
        "./chunkindex/internal/layout TestDecodeTableRefusesSamplesOutOfPlace",
        [("chunkindex/internal/layout/record.go", "if off < c.end-c.overlap || off <= c.begin || length <= 0 || length > c.longest || off+length <= c.end ||", "if length <= 0 || length > c.longest ||")],
    ),
    (
        "a page of an index is taken without its digest",
        "./chunkindex TestDamagedPages",
        [("chunkindex/pages.go", "if sha256.Sum256(b) != [sha256.Size]byte(p.digests[sha256.Size*n:]) {", "if sha256.Sum256(b) == [sha256.Size]byte{} {")],
    ),
    (
        "a small index reserves memory for pages that it does not have",
        "./chunkindex TestIndex_ResidentCountsPagesThatAreThere",
        [("chunkindex/pages.go", "int(min(recentPages*layout.ProofSize, p.end-p.begin))", "recentPages*layout.ProofSize")],
    ),
    (
        "sample tables are fetched one after another",
        "./chunkindex TestFetchSideBySide",
        [("chunkindex/index.go", "return parallel.Each(ctx, fetchersAtOnce, len(chunks),", "return parallel.Each(ctx, 1, len(chunks),")],
    ),
    (
        "a numbered key is looked up in any shard",
        "./chunkindex TestLookupOfNumberedKeys",
        [("chunkindex/lookup.go", "if x.shards[i].Stem != len(stem) {", "if len(stem) == 0 {")],
    ),
    (
        "names are numbered by the first key alone",
        "./chunkindex/internal/layout TestBlocksSayWhatPlainOnesDo",
        [("chunkindex/internal/layout/blocks.go", "} else if string(key) != format.Numbered(stem, n) {", "} else if stem == \"\" {")],
    ),
    (
        "chunkindex publishes without a condition",
        "./chunkindex/build TestTwoAtOnce",
        [
            ("chunkindex/build/publish.go", "cond.IfAbsent = true", "cond.IfAbsent = false"),
            ("chunkindex/build/publish.go", "cond.IfMatch = p.oldObj.ETag", 'cond.IfMatch = ""'),
        ],
    ),
    (
        "a compressed chunk is closed inside the frame in which it began",
        "./chunkindex/build TestAnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "own.Stored > max(first.Stored, last.Stored)", "own.Stored >= max(first.Stored, last.Stored)")],
    ),
    (
        "a compressed chunk forgets what comes before it in its first frame",
        "./chunkindex/build TestAnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "k.rec.Codec|c.codec, k.from-first.Decoded", "k.rec.Codec|c.Codec, 0*first.Decoded")],
    ),
    (
        "a frame may be part of any number of chunks",
        "./chunkindex/internal/layout TestExtentOrder",
        [("chunkindex/internal/layout/record.go", "\t\tleast = o.before\n", "\t\tleast = 0\n")],
    ),
    (
        "a bomb is decoded to its end",
        "./chunkindex/codec TestBombsAreRefused",
        [("chunkindex/codec/reader.go", "if r.off-r.first > r.maxFrame {", "if r.off-r.first > 64*r.maxFrame {")],
    ),
    (
        "a format does not see from LitData's names that a shard is compressed",
        "./chunkindex/build TestNamesOfCompressedShards",
        [("chunkindex/format/numbered.go", "\t_, bare := codec.Of(key)\n", "\tc, bare := codec.Of(key)\n\tif c == codec.Zstd && strings.HasSuffix(key, \".bin\") {\n\t\treturn key\n\t}\n")],
    ),
    (
        "the scans of tiny shards are kept one by one",
        "./chunkindex/build TestTinyShardsAreKeptTogether",
        [("chunkindex/build/keep.go", "return b.gathered.bytes >= b.keptBytes ||", "return b.gathered.bytes >= 0 ||")],
    ),
    (
        "scans that were kept are gathered until the end",
        "./chunkindex/build TestKeptAfterSoMuch",
        [("chunkindex/build/keep.go", "return b.gathered.bytes >= b.keptBytes || b.gathered.shards >= b.keptShards", "return false")],
    ),
    (
        "scans that were kept are taken for what their name says",
        "./chunkindex/build TestKeptScansOfAnotherName",
        [("chunkindex/build/keep.go", "if key != b.index.Prefix+layout.ScanDir+hex.EncodeToString(sum.Sum(nil)) {", "if sum == nil {")],
    ),
    (
        "scans that were kept are taken for those of any shard",
        "./chunkindex/build TestKeptScansThatLie",
        [("chunkindex/build/keep.go", "if s.check(shards, b.found.Overlap) != nil {", "if s.check(shards, b.found.Overlap) != nil && false {")],
    ),
    (
        "a survey reads heads one after another",
        "./chunkindex/build TestSurveyReadsOnceSideBySide",
        [("chunkindex/format/heads.go", "group.Go(func() { heads[i], errs[i] = Head(ctx, l, o.Key) })", "heads[i], errs[i] = Head(ctx, l, o.Key)")],
    ),
    (
        "a survey reads an object anew for each format",
        "./chunkindex/build TestSurveyReadsOnceSideBySide",
        [("chunkindex/build/listing.go", "if ok && (whole || int64(len(b)) >= n) {", "if ok && len(b) < 0 && whole {")],
    ),
    (
        "a survey takes a head that it remembers for the whole object",
        "./chunkindex/build TestListingDecodes",
        [("chunkindex/build/listing.go", "b, int64(len(b)) < n", "b, true")],
    ),
    (
        "a dataset without samples is published without a word",
        "./chunkindex/build TestEmptyArchives",
        [("chunkindex/build/build.go", "\tcase b.opt.AllowEmpty:", "\tcase true:")],
    ),
    (
        "hidden objects are samples",
        "./chunkindex/build TestHiddenObjectsAreLeftOut",
        [("chunkindex/build/build.go", "case !b.opt.Hidden && format.Hidden(key):", "case !b.opt.Hidden && format.Hidden(key) && len(key) < 0:")],
    ),
    (
        "samples that an index loses, being hidden, are not told of",
        "./cmd/millrace TestIndexLeavesHiddenObjectsOut",
        [("chunkindex/build/hidden.go", "if b.hidden[s.Key] {", "if s.Key == "" {")],
    ),
    (
        "a shard is taken over though its index.json says something else of it",
        "./chunkindex/build TestSaysIsBound",
        [("chunkindex/build/reuse.go", " || old.Says != layout.SaysDigest(b.found.Shards[i].Says) {", " {")],
    ),
    (
        "loose objects are taken over though one of them is new",
        "./chunkindex/build TestLooseObjectRenamed",
        [("chunkindex/build/reuse.go", "if old.Key != b.key(i) || old.Size", "if old.Size")],
    ),
    (
        "loose objects are taken over without the last chunk, which had others too",
        "./chunkindex/build TestLooseObjectsThatGo",
        [("chunkindex/build/reuse.go", "s.x.Extents(s.to)[0].Shard >= s.end", "s.x.Extents(s.to)[0].Shard >= s.first")],
    ),
    (
        "the tar scanner takes extensions for two that WebDataset takes for one",
        "./chunkindex/format/webdataset TestExtensionsThatDifferInCapitals",
        [("chunkindex/format/naming/member.go", "lower := strings.ToLower(ext)", "lower := ext")],
    ),
    (
        "two formats that claim a dataset are not told apart",
        "./chunkindex/build TestSeveralFormats",
        [("chunkindex/build/survey.go", "\tcase 1:\n\t\tb.format", "\tcase 1, 2:\n\t\tb.format")],
    ),
    (
        "the tar scanner ignores the size in an extended header",
        "./chunkindex/format/webdataset TestSizeOfAnExtendedHeader",
        [("chunkindex/format/webdataset/scan.go", "if s.size >= 0 {", "if s.size > 1<<60 {")],
    ),
    (
        "the tar scanner passes over data behind the end of an archive",
        "./chunkindex/format/webdataset TestRefusals",
        [("chunkindex/format/webdataset/scan.go", "if !zero(b) {", "if len(b) < 0 {")],
    ),
    (
        "a batch of MDS or LitData forgets that its count takes room too",
        "./chunkindex/format/mds TestBatchAndIndexAreAsMDSWriterWritesThem",
        [("chunkindex/framing/offsets.go", "at := 8 + 4*uint64(len(lengths))", "at := 4 + 4*uint64(len(lengths))")],
    ),
    (
        "a batch of MDS or LitData of more than 4 GiB wraps its offsets around",
        "./chunkindex/format/mds TestFraming",
        [("chunkindex/framing/offsets.go", "if at > math.MaxUint32 {", "if at > math.MaxInt64 {")],
    ),
    (
        "the scanner of MDS and LitData takes samples that are longer than their fields",
        "./chunkindex/format/mds TestRefusedShard",
        [("chunkindex/format/offsets/scan.go", "sum := s.measure(sizes); sum != n", "sum := s.measure(sizes); sum > n")],
    ),
    (
        "a sample of LitData's tokens lacks the one that comes next",
        "./chunkindex/format/litdata TestBlocksOfTokens",
        [("chunkindex/format/litdata/tokens.go", "bytes: (sequence + 1) * width", "bytes: sequence * width")],
    ),
    (
        "MDS shards are read by other columns than their own",
        "./chunkindex/format/mds TestRefusedShard",
        [("chunkindex/format/mds/survey.go", "if !h.Equal(s.MDSColumns) {", "if len(h.Names) != len(s.Names) {")],
    ),
    (
        "hashes of MDS shards are computed and not compared",
        "./chunkindex/format/mds TestHashes",
        [("chunkindex/format/mds/sums.go", "got != strings.ToLower(s.want[name])", "len(got) != len(strings.ToLower(s.want[name]))")],
    ),
    (
        "chunkindex writes the constants of a dataset in another way than they were",
        "./chunkindex/build TestConstantsComeBackAsTheyWere",
        [("chunkindex/internal/layout/meta.go", "e.SetEscapeHTML(false)", "e.SetEscapeHTML(true)")],
    ),
    (
        "tfrecord passes over the checksum of the data",
        "./chunkindex/format/tfrecord TestEveryByteIsChecked",
        [("chunkindex/format/tfrecord/scan.go", "if len(foot) == footSize && binary.", "if len(foot) < footSize && binary.")],
    ),
    (
        "jsonl loses a last line without a line feed",
        "./chunkindex/format/jsonl TestShards",
        [("chunkindex/format/cursor.go", "if err != nil || len(more) == seen {\n\t\t\treturn more, err", "if err != nil || len(more) == seen {\n\t\t\treturn nil, err")],
    ),
    (
        "jsonl takes bytes that are no characters",
        "./chunkindex/format/jsonl TestRefusals",
        [("chunkindex/format/jsonl/scan.go", "if !utf8.Valid(text) {", "if !utf8.Valid(text[:0]) {")],
    ),
    (
        "records trusts that all arrays are like the first",
        "./chunkindex/format/records TestRefusals",
        [("chunkindex/format/records/scan.go", "if !have.Equal(want) {", "if have.Size() < 0 {")],
    ),
    (
        "records takes the test set of CIFAR for training",
        "./chunkindex/format/records TestShards",
        [("chunkindex/format/records/cifar.go", "if len(files) == 0 {", "if true {")],
    ),
    (
        "a shard that ends early has a last sample that is whole",
        "./chunkindex/format/records TestConforms",
        [("chunkindex/format/cursor.go", 'return c.Fail("shard is truncated: %d bytes are missing", n)', "return nil")],
    ),
    (
        "tfrecord takes a length that is more than a sample can have",
        "./chunkindex/format/tfrecord TestConforms",
        [("chunkindex/format/tfrecord/scan.go", "if size > format.MaxSample-headSize-footSize {", "if false {"), ("chunkindex/format/cursor.go", "if !c.open || n < 0 {", "if !c.open {")],
    ),
    (
        "a fault of the store is the end of a shard",
        "./chunkindex/format TestCursorPromises",
        [("chunkindex/format/cursor.go", "if err := c.fill(n); err == io.EOF {", "if err := c.fill(n); err != nil {")],
    ),
    (
        "a scanner takes memory for what a shard merely promises",
        "./chunkindex/format TestCursorPromises",
        [("chunkindex/format/cursor.go", "make([]byte, len(c.buf))...)", "make([]byte, min(n, 1<<30))...)"), ("chunkindex/format/cursor.go", "case base == 0 && c.end == len(c.buf):", "case room < n:")],
    ),
    (
        "tokens leaves out the token that two windows share",
        "./chunkindex/format/tokens TestWindows",
        [("chunkindex/format/tokens/scan.go", "\t\t\tshared = token\n", "\t\t\tshared = 0 * token\n")],
    ),
    (
        "tokens trusts an .idx whose sequences overlap",
        "./chunkindex/format/tokens TestRefusals",
        [("chunkindex/format/tokens/megatron.go", "if place != tokens*size {", "if place > tokens*size {")],
    ),
    (
        "a join of parts scans what they lack by itself",
        "./chunkindex/build TestJoinSaysWhatIsMissing",
        [("chunkindex/build/share.go", "len(b.begun) == 0 || b.opt.Share.Rest", "len(b.begun) >= 0 || b.opt.Share.Rest")],
    ),
    (
        "the join takes scans of windows that share a token for damaged",
        "./chunkindex/format/tokens TestConforms/npy/parts",
        [("chunkindex/build/keep.go", "if s.check(shards, b.found.Overlap) != nil {", "if s.check(shards, 0) != nil {")],
    ),
    (
        "a key of several shards is that of the first one",
        "./chunkindex/build TestKeysThatSeveralShardsHave",
        [("chunkindex/lookup.go", "case len(found) == 1:\n", "case len(found) >= 1:\n")],
    ),
    (
        "a key that one shard has twice is taken",
        "./chunkindex/build TestKeyTwiceInOneShard",
        [("chunkindex/lookup.go", "\t\tif other == key {\n", "\t\tif other == key && len(same) > maxSameHash {\n")],
    ),
    (
        "JSON Lines with long first lines are not seen",
        "./chunkindex/format/jsonl TestShards",
        [("chunkindex/format/jsonl/jsonl.go", "case !ended && !whole && n < maxLook:", "case !ended && !whole && n < 0*maxLook:")],
    ),
    (
        "a format that was named takes what its names say",
        "./chunkindex/build TestNamedFormatsTakeEverything",
        [("chunkindex/build/survey.go", 'case b.opt.Format != "":\n\t\t\treturn', 'case b.opt.Format == "no such":\n\t\t\treturn')],
    ),
    (
        "a damaged TFRecord shard is left out",
        "./chunkindex/format/tfrecord TestRefusals",
        [("chunkindex/format/tfrecord/tfrecord.go", "\treturn maybe, begin(ctx, l, maybe)\n", "\treturn maybe, nil\n")],
    ),
    (
        "whatever nobody knows is a sample",
        "./chunkindex/build TestUnreadContainersAreRefused",
        [("chunkindex/format/files/names.go", "\t\t\treturn &UnknownError{o.Key}\n", "\t\t\tcontinue\n")],
    ),
    (
        "a shard of a compression that is not read is lost beside others",
        "./chunkindex/build TestContainersBesideShards",
        [("chunkindex/build/survey.go", "case known && c.packed:", "case known && c.packed && len(taken) > 9:")],
    ),
    (
        "hidden members are samples",
        "./chunkindex/format/webdataset TestHiddenMembers",
        [("chunkindex/format/webdataset/scan.go", "if s.hidden != nil && format.Hidden(h.name) {", "if s.hidden != nil && format.Hidden(h.name) && h.size < 0 {")],
    ),
    (
        "hidden members end a sample",
        "./chunkindex/format/webdataset TestHiddenMembers",
        [("chunkindex/format/webdataset/scan.go", "s.held+n > maxHeld {", "s.held+n > 0*maxHeld {")],
    ),
    (
        "a last line stands before others without a line feed",
        "./chunkindex/build TestLastLineWithoutALineFeed",
        [("chunkindex/build/cut.go", "Length: end - c.sample.start", "Length: 0*end + c.off - c.sample.start")],
    ),
    (
        "the line feed that is not stored is not added",
        "./chunkindex/build TestLineFeedOfACodec",
        [("chunkindex/codec/codec.go", "\t\tdst[len(dst)-1] = '\\n'\n", "")],
    ),
    (
        "an index is written that cannot be opened",
        "./chunkindex/build TestWideDatasets",
        [("chunkindex/internal/layout/meta.go", "if b.Len()-1 > MaxMeta {", "if b.Len()-1 > 1000*MaxMeta {")],
    ),
    (
        "objects that differ by their extensions alone have one key",
        "./chunkindex/format/files TestEachObjectIsASample",
        [("chunkindex/format/files/names.go", "shards[i].Says, shards[j].Says = whole, whole", "shards[i].Says, shards[j].Says = \"\", \"\"")],
    ),
    (
        "frames that nobody asks for are remembered",
        "./chunkindex/codec TestKeep",
        [("chunkindex/codec/framelist.go", "\tif len(l.known) < max(l.most, leastKnown) {", "\tif len(l.known) < 1000*max(l.most, leastKnown) {")],
    ),
    (
        "a cutter never says which frames it needs",
        "./chunkindex/build TestManyTinyMembers",
        [("chunkindex/build/cut.go", "\tc.off += int64(len(p))\n\tc.forget(c.off)\n", "\tc.off += int64(len(p))\n")],
    ),
    (
        "a large index that is damaged in the store stays",
        "./chunkindex/build TestDamagedLargeIndexIsReplaced",
        [("chunkindex/build/publish.go", "p.index.Prove(ctx) == nil", "p.index.pages.end > 0")],
    ),
    (
        "blocks of an earlier index keep their space",
        "./chunkindex/build TestSpaceOfAnEarlierIndex",
        [("chunkindex/pages.go", "tempfile.Release(p.file, p.begin+from, to-from)", "unnamed.Release(p.file, p.begin+from, 0)")],
    ),
    (
        "a run reads all shards again when its store fails at the earlier index",
        "./chunkindex/build TestStoreThatFailsAtAnEarlierIndex",
        [("chunkindex/build/reuse.go", "\tif err := x.CopyBlocks(ctx, runs); err != nil {\n", "\tif err := x.CopyBlocks(ctx, runs); err != nil && len(found) == 0 {\n"), ("chunkindex/build/reuse.go", "if errors.As(err, &fetching) ||", "if errors.As(err, &fetching) && len(found) == 0 ||")],
    ),
    (
        "a chunk has the bytes that two samples share twice",
        "./chunkindex/build TestAnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "c.open.feed(c.hold[c.sample.shared:])", "c.open.feed(c.hold)")],
    ),
    (
        "objects of one chunk are one extent",
        "./chunkindex/build TestLooseObjectsThatGo",
        [("chunkindex/build/cut.go", "k.rec.Extents[n].Shard == at.Shard {", "k.rec.Extents[n].Shard <= at.Shard {")],
    ),
    (
        "a chunk goes on after a gap that was too long to hold",
        "./chunkindex/build TestLongGapClosesTheChunk",
        [("chunkindex/build/cut.go", "full := k.sealed || k.reaches", "full := k.reaches")],
    ),
    (
        "a frame is part of three chunks",
        "./chunkindex/build TestAnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "own.Stored > max(first.Stored, last.Stored)", "own.Stored > max(first.Stored, 0*last.Stored)")],
    ),
    (
        "data behind the zeros of a gzip shard is lost",
        "./chunkindex/codec TestReaderRefuses",
        [("chunkindex/codec/unpack.go", "return errAfterZeros", "return io.EOF")],
    ),
    (
        "the check of an xz block is not looked at",
        "./chunkindex/codec TestXzRefuses",
        [("chunkindex/codec/xz.go", " || !bytes.Equal(k.sum.Sum(nil), rest[padding:]) {", " || len(k.sum.Sum(nil)) < 0 {")],
    ),
    (
        "an xz block gets a dictionary of any length",
        "./chunkindex/codec TestXzRefuses",
        [("chunkindex/codec/xzblock.go", "if h.dictionary > MaxDictionary {", "if h.dictionary > 64*MaxDictionary {")],
    ),
    (
        "an index of xz does not say what check blocks have",
        "./chunkindex/build TestAnyFramesGiveTheSameSamples",
        [("chunkindex/build/cut.go", "c.frames.Params(k.from, c.last)", "c.frames.Params(c.last+1, c.last)")],
    ),
    (
        "a line feed in quotes ends a record of CSV",
        "./chunkindex/format/csv TestShards",
        [("chunkindex/framing/csv.go", "if p.place == inQuotes {\n\t\t\tif i", "if p.place == inQuotes && b[p.at] != '\\n' {\n\t\t\tif i")],
    ),
    (
        "a shard of CSV may have another header",
        "./chunkindex/format/csv TestRefusals",
        [("chunkindex/format/csv/scan.go", "if string(text) != s.header {", "if len(text) == 0 && s.header != \"\" {")],
    ),
    (
        "a record of CSV may have fields of any number",
        "./chunkindex/format/csv TestRefusals",
        [("chunkindex/format/csv/scan.go", "if p.Fields != s.fields {", "if p.fields < 0 {")],
    ),
    (
        "a first record of numbers is taken for a header without a word",
        "./chunkindex/format/csv TestTablesWithoutAHeader",
        [("chunkindex/format/csv/csv.go", "case number(field):", "case field == \"\" && number(field):")],
    ),
    (
        "the first record of a table without a header is lost",
        "./chunkindex/format/csv TestTablesWithoutAHeader",
        [("chunkindex/format/csv/csv.go", "if header == format.HeaderAbsent {", "if header == format.HeaderAbsent && r.fields == 0 {")],
    ),
    (
        "the checksum of a deflated member is not looked at",
        "./chunkindex/format/zip TestChecksums",
        [("chunkindex/format/zip/contents.go", "if c.decoded != m.decoded || c.sum.Sum32() != m.crc {", "if c.decoded != m.decoded {")],
    ),
    (
        "a member's own header is not held to the directory",
        "./chunkindex/format/zip TestRefusals",
        [("chunkindex/format/zip/contents.go", "if err := m.agrees(c.header); err != nil {", "if err := m.agrees(c.header); err != nil && c.off < 0 {")],
    ),
    (
        "members of a zip archive may overlap",
        "./chunkindex/format/zip TestRefusals",
        [("chunkindex/format/zip/directory.go", "if m.stored > m.next-m.head-zipmember.HeaderSize-int64(len(m.name)) {", "if m.stored < 0 {"), ("chunkindex/format/zip/contents.go", "if m.head+headerLength(header)+m.stored > m.next {", "if m.next < 0 {")],
    ),
    (
        "members of a zip archive are samples each though they have one key",
        "./chunkindex/format/zip TestGrouping",
        [("chunkindex/format/zip/zip.go", "if s.first != nil && (m.key != s.group.Key ||", "if s.first != nil && (m.key != s.group.Key || m.ext != s.first.ext ||")],
    ),
    (
        "a directory between two members of a zip archive does not end the sample",
        "./chunkindex/format/zip TestDirectoriesEndASample",
        [("chunkindex/format/zip/zip.go", "\tcase directoryMember:\n\t\treturn s.finish()", "\tcase directoryMember:\n\t\treturn nil")],
    ),
    (
        "members of one sample of a zip archive are put together without a word",
        "./chunkindex/format/zip TestSeveralMembersAreTold",
        [("chunkindex/format/zip/zip.go", "if s.joined != \"\" {", "if s.joined != \"\" && shard < 0 {")],
    ),
    (
        "pictures beside a few shards are ignored, however many they are",
        "./chunkindex/build TestKindsAreNotMixed",
        [("chunkindex/build/kinds.go", "return k.Objects <= len(b.found.Shards) && (", "return k.Objects >= 0 && (")],
    ),
    (
        "a metadata.jsonl beside a picture is a data set of its own",
        "./chunkindex/build TestKindsAreNotMixed",
        [("chunkindex/build/kinds.go", 'strings.EqualFold(stem, "metadata")', 'strings.EqualFold(stem, "meta")')],
    ),
    (
        "a pattern that is offered takes objects of another kind",
        "./chunkindex/build TestKindsOfOneSuffix",
        [("chunkindex/build/kinds.go", "if other != name && slices.ContainsFunc(", 'if other == "" && slices.ContainsFunc(')],
    ),
    (
        "the command of an answer forgets the options that were given",
        "./cmd/millrace TestIndexAsksForOneKind",
        [("cmd/internal/indexing/kinds.go", 'add("match", o.Match, o.Match != "")', 'add("match", o.Match, false)')],
    ),
    (
        "a container of several objects is known by its first object alone",
        "./chunkindex/build TestContainersThatAreFolders",
        [("chunkindex/build/containers.go", "known && c.folder() {\n\t\t\tkey = o.Key", "known && c.folder() {\n\t\t\tkey = unknown.Key")],
    ),
    (
        "a marker that a writer leaves is a shard",
        "./chunkindex/build TestKindsAreNotMixed",
        [("chunkindex/format/data.go", '"metadata.json", ', "")],
    ),
    (
        "a table beside pictures is a data set of its own",
        "./chunkindex/format/csv TestShards",
        [("chunkindex/format/csv/csv.go", "\t\t\treturn nil, nil\n", "\t\t\tcontinue\n")],
    ),
    (
        "an index that lies elsewhere writes beside the shards",
        "./chunkindex/build TestIndexElsewhere",
        [("chunkindex/build/build.go", "probe(ctx, b.index)", "probe(ctx, Place{b.store, b.prefix})")],
    ),
    (
        "scans of an index that lies elsewhere are kept beside the shards",
        "./chunkindex/build TestIndexElsewhere",
        [("chunkindex/build/keep.go", "b.index.Store.Put(ctx, key, &all,", "b.store.Put(ctx, key, &all,")],
    ),
    (
        "the index of one dataset replaces that of another",
        "./chunkindex/build TestOnePlaceOneIndex",
        [("chunkindex/build/build.go", "if err == nil && p.Data != b.opt.Data {", "if err == nil && p.Data != b.opt.Data && b.opt.SingleWriter {")],
    ),
    (
        "a place that takes no writes is not told from one that cannot be read",
        "./cmd/millrace TestPlaceThatTakesNoWrites",
        [("chunkindex/build/place.go", "\tif errors.Is(err, objstore.ErrDenied) {\n", "\tif errors.Is(err, objstore.ErrThrottled) {\n")],
    ),
    (
        "losses, subsets and quarantines are written beside the shards",
        "./cmd/millrace TestEveryCommandTakesTheIndexElsewhere",
        [("cmd/internal/location/dataset.go", "Reader: d.Home, Writer: d.Home, Prefix: d.Loc.OfIndex().Prefix", "Reader: d.Store, Writer: d.Store, Prefix: d.Loc.Prefix")],
    ),
    (
        "links are passed over without a word",
        "./chunkindex/build TestLinksOutOfTheDirectory",
        [("chunkindex/build/links.go", "b.report.Links++; b.report.Links == 1", "b.report.Link == \"\"")],
    ),
    (
        "links are followed that nobody asked to follow",
        "./internal/objstore/dirstore TestLinksThatArePassedOver",
        [("internal/objstore/dirstore/dirstore.go", "&Store{path: root, lock", "&Store{path: root, links: true, lock")],
    ),
    (
        "an index that was made of links is served without them",
        "./cmd/millrace TestLinksAreFollowedByOption",
        [("chunkindex/open.go", "x.tables, x.links, x.data, x.binding, x.name = opt.Tables, links, data, bindingKey, opt.Name", "x.tables, x.links, x.data, x.binding, x.name = opt.Tables, links && opt.MaxBytes > 0, data, bindingKey, opt.Name")],
    ),
    (
        "train and val become one dataset without a word",
        "./chunkindex/build TestSplitsAreNotMixed",
        [("chunkindex/build/splits.go", "if len(all) < 2 ||", "if len(all) < 3 ||")],
    ),
    (
        "nobody is told that ImageFolder stumbles over an index",
        "./cmd/millrace TestSplitsAreAskedForAndClassFoldersWarnedOf",
        [("cmd/internal/indexing/indexing.go", "if r.ClassFolders > 0 &&", "if r.ClassFolders > 1000 &&")],
    ),
    (
        "a ledger takes samples of two shards with one key for one",
        "./cmd/millrace TestLinksAreFollowedByOption",
        [("client/ledger.go", "fmt.Appendf(nil, \"%v\\x00%s\", s.Shard, s.Key)", "fmt.Appendf(nil, \"%s\", s.Key)")],
    ),
    (
        "rows that were deleted from a table of Delta Lake are samples",
        "./chunkindex/build TestTablesWithALog",
        [("chunkindex/build/containers.go", "range slices.Sorted(maps.Keys(b.hidden)) {", "range slices.Sorted(maps.Keys(map[string]bool{})) {")],
    ),
]
