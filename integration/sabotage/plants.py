"""The planted bugs: name, the packages whose tests must notice, the edits.

An edit is (file, text that stands there once, text that replaces it). Each is a mistake
that somebody could make, and that would deliver a wrong byte, lose a sample, or leak.
"""

PLANTS = [
    (
        "s3backend sends no If-Match and compares no ETag",
        ["./s3backend"],
        [
            ("s3backend/read.go", 'opts.Set("If-Match", `"`+ref.ETag+`"`)', "_ = ref.ETag"),
            ("s3backend/read.go", 'case want != "" && etag != want:', "case false:"),
        ],
    ),
    (
        "s3backend accepts a body that is longer than the range",
        ["./s3backend"],
        [("s3backend/read.go", "n, _ := io.ReadFull(body, extra[:]); n > 0", "n, _ := io.ReadFull(body, extra[:]); n > 1")],
    ),
    (
        "s3backend resumes a broken body one byte too far",
        ["./s3backend"],
        [("s3backend/read.go", "offset+s.filled, n-s.filled)", "offset+s.filled+min(s.filled, 1), n-s.filled)")],
    ),
    (
        "the directory store does not compare versions",
        ["./internal/objstore/dirstore"],
        [("internal/objstore/dirstore/dirstore.go", 'etag != "" && o.ETag != etag', "false && o.ETag != etag")],
    ),
    (
        "the directory store's ETag leaves the time out",
        ["./internal/objstore/dirstore"],
        [("internal/objstore/dirstore/dirstore.go", "info.ModTime().UnixNano(), inode)", "0, inode)")],
    ),
    (
        "datapath skips the CRC of a chunk",
        ["./datapath"],
        [("datapath/arrival.go", "return crc == desc.CRC32C &&", "return desc.CRC32C == desc.CRC32C &&")],
    ),
    (
        "datapath reads under no ETag",
        ["integration:TestDamageUnderARunningGateway/dir"],
        [("datapath/reads.go", "ETag: shard.ETag, VersionID", 'ETag: "", VersionID')],
    ),
    (
        "datapath closes the leases before the body is read",
        ["./datapath"],
        [
            (
                "datapath/source.go",
                "return chunkindex.NewBody(segments, tiers(b.bytes, missing, time.Since(start)), func() {\n\t\tl.Close()\n",
                "l.Close()\n\treturn chunkindex.NewBody(segments, tiers(b.bytes, missing, time.Since(start)), func() {\n",
            )
        ],
    ),
    (
        "datapath keeps the budget of a body it copied",
        ["./datapath"],
        [("datapath/source.go", "tiers(b.bytes, loaded, time.Since(start)), room.Close), nil", "tiers(b.bytes, loaded, time.Since(start)), nil), nil")],
    ),
    (
        "datapath shares chunks whose digest nobody compared",
        ["./datapath"],
        [("datapath/path.go", "if !p.cfg.CheckSHA {", "if false {")],
    ),
    (
        "chunkcache keeps a chunk whose load failed",
        ["./chunkcache"],
        [("chunkcache/flight.go", "keep := err == nil && (alive", "keep := (alive")],
    ),
    (
        "chunkcache lets a load end with its first waiter",
        ["./chunkcache"],
        [("chunkcache/flight.go", "if cl.waiters > 0 {\n\t\t\tcontinue\n\t\t}", "")],
    ),
    (
        "chunkcache counts one lease too few for the waiters of a load",
        ["./chunkcache"],
        [("chunkcache/flight.go", "refs: int32(cl.waiters), warm", "refs: int32(max(cl.waiters-1, 0)), warm")],
    ),
    (
        "chunkcache drops a chunk and keeps its bytes on the books",
        ["./chunkcache"],
        [("chunkcache/cache.go", "\tc.stats.Bytes -= e.slot.class\n\tif c.debug {", "\tif c.debug {")],
    ),
    (
        "a lease closed lets a chunk go that others still hold",
        ["./chunkcache"],
        [("chunkcache/shelf.go", "if e.refs > 0 {\n\t\treturn false", "if e.refs > 1 {\n\t\treturn false")],
    ),
    (
        "lru counts the bytes of chunks that are gone",
        ["./chunkcache"],
        [("chunkcache/lru.go", "{ l.bytes -= size })", "{ l.bytes -= size * 0 })")],
    ),
    (
        "keep takes a chunk for new when its lease ends",
        ["./chunkcache"],
        [("chunkcache/keep.go", "k.add(key, size, int64(admitted))", "k.add(key, size, int64(k.added))")],
    ),
    (
        "plan lets a chunk go that has come nearer meanwhile",
        ["./chunkcache"],
        [("chunkcache/plan.go", "return n.rank >= before", "return n.rank >= 0*before")],
    ),
    (
        "a chunk that a reader comes for makes room for any other",
        ["./chunkcache"],
        [("chunkcache/shelf.go", "if !ok && warm {", "if !ok {")],
    ),
    (
        "budget grants one byte more than there is",
        ["./internal/budget"],
        [("internal/budget/budget.go", "if n > b.total-b.inUse {", "if n > b.total-b.inUse+1 {")],
    ),
    (
        "shuffle gives the last rank one sample less",
        ["./shuffle"],
        [("shuffle/batch.go", "Count: hi - lo}", "Count: hi - lo - min(rank, 1)*min(hi-lo, 1)}")],
    ),
    (
        "shuffle forgets the rest of an epoch",
        ["./shuffle"],
        [("shuffle/batch.go", "b.Tail != Drop && b.Samples%b.BatchSize != 0", "b.Tail == Pad && b.Samples%b.BatchSize != 0")],
    ),
    (
        "shuffle mixes every window in the same way",
        ["./shuffle"],
        [("shuffle/window.go", "newPerm(w.key.with(i), n)", "newPerm(w.key.with(i*0), n)")],
    ),
    (
        "shuffle draws every epoch with the same phase",
        ["./shuffle"],
        [("shuffle/draws.go", 'newKey("importance", p.params.Seed, epoch)', 'newKey("importance", p.params.Seed)')],
    ),
    (
        "shuffle gives a virtual sample to the one before",
        ["./shuffle"],
        [("shuffle/draws.go", "if r > 0 {\n\t\tq++", "if r > d.samples {\n\t\tq++")],
    ),
    (
        "shuffle has bad samples of a chunk replaced by the same one in every epoch",
        ["./shuffle"],
        [("shuffle/quarantine.go", 'newKey("quarantine", q.seed, epoch, uint64(chunk))', 'newKey("quarantine", q.seed, uint64(chunk))')],
    ),
    (
        "shuffle counts the members of a subset's last byte twice",
        ["./shuffle"],
        [("shuffle/subset.go", "for _, b := range bitmap[:place/8] {", "for _, b := range bitmap[:(place+7)/8] {")],
    ),
    (
        "shuffle forgets the phase of a mixture's sources",
        ["./shuffle"],
        [("shuffle/mixture.go", "lo, carry := bits.Add64(lo, s.phase, 0)", "lo, carry := bits.Add64(lo, 0, 0)")],
    ),
    (
        "shuffle begins a mixture's fixed counts anew in each of its epochs",
        ["./shuffle"],
        [("shuffle/mixture.go", "return epoch*(m.samples/m.batch) + batch", "return batch")],
    ),
    (
        "selection hashes names without the salt",
        ["./selection"],
        [("selection/rule.go", '[]byte("millrace subset\\n" + r.Salt + "\\n")', '[]byte("millrace subset\\n\\n")')],
    ),
    (
        "selection believes the bitmaps of a damaged split",
        ["./selection"],
        [("selection/subset.go", "if crc32.Checksum(b, castagnoli()) != x.crcs[chunk] {", "if false {"), ("selection/layout.go", "if found != members {", "if false {")],
    ),
    (
        "the gateway replaces a bad sample by one of another subset",
        ["./gateway"],
        [("gateway/selection.go", "first = s.Members()\n", "bad = list.Numbers()\n")],
    ),
    (
        "the gateway leaves the quarantine out of a batch's name",
        ["./gateway"],
        [("gateway/request.go", 'add("quarantine", p.quarantine)', "_ = p.quarantine")],
    ),
    (
        "the gateway gives a mixture's sample the place of another",
        ["./gateway"],
        [("gateway/mixedread.go", "segments[seq] = b.Segments[k]", "segments[min(seq+k%2, total-1)] = b.Segments[k]")],
    ),
    (
        "shuffle deals every row to the ranks in the same direction",
        ["./shuffle"],
        [("shuffle/deal.go", "if row%2 == 1 {", "if row%2 == 2 {")],
    ),
    (
        "shuffle says that a chunk is needed again only while its last span lasts",
        ["./shuffle"],
        [("shuffle/spans.go", "(!found || s.From < first.From)", "(!found || s.From > first.From)")],
    ),
    (
        "shuffle finds the wrong home for some lanes",
        ["./shuffle"],
        [("shuffle/homes.go", "uint32(mulDiv(j, worldSize, k))", "uint32(mulDiv(j+1, worldSize, k+1))")],
    ),
    (
        "shuffle breaks a tie between deficits by the highest rank",
        ["./shuffle"],
        [("shuffle/homes.go", "cmp.Compare(u[i].rank, u[j].rank)", "cmp.Compare(u[j].rank, u[i].rank)")],
    ),
    (
        "shuffle gives away the first samples of a surplus",
        ["./shuffle"],
        [("shuffle/homes.go", "move(from.rank, to.rank, from.by-by, from.by)", "move(from.rank, to.rank, 0, by)")],
    ),
    (
        "shuffle hands out the deal of another batch",
        ["./shuffle"],
        [("shuffle/homes.go", "d == nil || d.first != batch.First ||", "d == nil ||")],
    ),
    (
        "shuffle takes the strata of every row in the same order",
        ["./shuffle"],
        [("shuffle/strata.go", "row.with(r), k)", "row.with(r*0), k)")],
    ),
    (
        "shuffle takes the strata of the last row by their numbers",
        ["./shuffle"],
        [("shuffle/strata.go", "order = ranked(order)", "order = ranked(order)\n\t\t\tslices.Sort(order)")],
    ),
    (
        "shuffle makes windows of strata half as large",
        ["./shuffle"],
        [("shuffle/window.go", "p.params.Window/w.width)", "max(1, p.params.Window/w.width/2))")],
    ),
    (
        "placement moves chunks between the members that stay",
        ["./placement"],
        [("placement/placement.go", "v.keys = append(v.keys, memberKey(m.ID))", "v.keys = append(v.keys, with(0, uint64(len(v.keys))))")],
    ),
    (
        "placement leaves weights out",
        ["./placement"],
        [("placement/rendezvous.go", "bits.Mul64(log, v.members[best].Weight)", "bits.Mul64(log, weight)")],
    ),
    (
        "placement lets the first of two have an ordinal",
        ["./placement"],
        [("placement/placement.go", "len(who) == 1 {", "len(who) > 0 {")],
    ),
    (
        "placement does not ask whether the gateway of a lane is left out",
        ["./placement"],
        [("placement/placement.go", "v.members[i].Weight > 0 && (skip == nil || !skip(i))", "v.members[i].Weight > 0")],
    ),
    (
        "chunkindex does not check a block's CRC",
        ["./chunkindex"],
        [("chunkindex/record.go", "if crc32.Checksum(b[:n], castagnoli()) != binary.LittleEndian.Uint32(b[n:]) {", "if false {")],
    ),
    (
        "chunkindex lets samples overlap",
        ["./chunkindex/..."],
        [("chunkindex/record.go", "if off < end-overlap || off <= begin || length == 0 || off+length <= end ||", "if off < 0*(begin+end+overlap) || length == 0 ||")],
    ),
    (
        "chunkindex publishes without a condition",
        ["./chunkindex/..."],
        [
            ("chunkindex/publish.go", "cond.IfAbsent = true", "cond.IfAbsent = false"),
            ("chunkindex/publish.go", "cond.IfMatch = p.oldObj.ETag", 'cond.IfMatch = ""'),
        ],
    ),
    (
        "a compressed chunk is closed inside the frame in which it began",
        ["./chunkindex"],
        [("chunkindex/cut.go", "return ok && f.Stored > other.Stored", "return ok && f.Stored >= other.Stored")],
    ),
    (
        "a compressed chunk forgets what comes before it in its first frame",
        ["./chunkindex"],
        [("chunkindex/cut.go", "c.rec.codec, c.rec.skip = c.codec, c.from-first.Decoded", "c.rec.codec, c.rec.skip = c.codec, 0*first.Decoded")],
    ),
    (
        "a frame may be part of any number of chunks",
        ["./chunkindex"],
        [("chunkindex/record.go", "\t\tleast = o.before\n", "\t\tleast = 0\n")],
    ),
    (
        "a bomb is decoded to its end",
        ["./chunkindex/codec"],
        [("chunkindex/codec/reader.go", "if r.off-r.first > r.maxFrame {", "if r.off-r.first > 64*r.maxFrame {")],
    ),
    (
        "a shard is taken over though its index.json says something else of it",
        ["./chunkindex"],
        [("chunkindex/reuse.go", " || old.says != saysDigest(b.found.Shards[i].Says) {", " {")],
    ),
    (
        "loose objects are taken over though one of them is new",
        ["./chunkindex"],
        [("chunkindex/reuse.go", "if old.Key != b.key(i) || old.Size", "if old.Size")],
    ),
    (
        "the client looks for samples of a tar without what pads its members",
        ["./client"],
        [("client/places.go", "padding = min(-s.Length&(tarBlock-1), int64(len(left))-head-s.Length)", "padding = 0")],
    ),
    (
        "loose objects are taken over without the last chunk, which had others too",
        ["./chunkindex"],
        [("chunkindex/reuse.go", "x.Extents(s.to)[0].Shard < end {", "x.Extents(s.to)[0].Shard < first {")],
    ),
    (
        "the tar scanner takes extensions for two that WebDataset takes for one",
        ["./chunkindex/webdataset"],
        [("chunkindex/webdataset/scan.go", "lower := strings.ToLower(ext)", "lower := ext")],
    ),
    (
        "two formats that claim a dataset are not told apart",
        ["./chunkindex"],
        [("chunkindex/survey.go", "\tcase 1:\n\t\tb.format", "\tcase 1, 2:\n\t\tb.format")],
    ),
    (
        "the tar scanner ignores the size in an extended header",
        ["./chunkindex/..."],
        [("chunkindex/webdataset/scan.go", "if s.size >= 0 {", "if s.size > 1<<60 {")],
    ),
    (
        "the tar scanner passes over data behind the end of an archive",
        ["./chunkindex/..."],
        [("chunkindex/webdataset/scan.go", "if !zero(s.buf[:n]) {", "if n < 0 {")],
    ),
    (
        "a batch of MDS or LitData forgets that its count takes room too",
        ["./chunkindex/offsets", "./chunkindex/mds"],
        [("chunkindex/offsets/scan.go", "at := 8 + 4*uint64(len(lengths))", "at := 4 + 4*uint64(len(lengths))")],
    ),
    (
        "a batch of MDS or LitData of more than 4 GiB wraps its offsets around",
        ["./chunkindex/mds"],
        [("chunkindex/offsets/scan.go", "if at > math.MaxUint32 {", "if at > math.MaxInt64 {")],
    ),
    (
        "the scanner of MDS and LitData takes samples that are longer than their fields",
        ["./chunkindex/mds", "./chunkindex/litdata"],
        [("chunkindex/offsets/scan.go", "sum := s.measure(); sum != n", "sum := s.measure(); sum > n")],
    ),
    (
        "a sample of LitData's tokens lacks the one that comes next",
        ["./chunkindex/litdata"],
        [("chunkindex/litdata/tokens.go", "bytes: (sequence + 1) * width", "bytes: sequence * width")],
    ),
    (
        "MDS shards are read by other columns than their own",
        ["./chunkindex/mds"],
        [("chunkindex/mds/survey.go", "if !h.equal(s.columns) {", "if len(h.Names) != len(s.Names) {")],
    ),
    (
        "hashes of MDS shards are computed and not compared",
        ["./chunkindex/mds"],
        [("chunkindex/mds/sums.go", "got != strings.ToLower(s.want[name])", "len(got) != len(strings.ToLower(s.want[name]))")],
    ),
    (
        "chunkindex writes the constants of a dataset in another way than they were",
        ["./chunkindex"],
        [("chunkindex/write.go", "e.SetEscapeHTML(false)", "e.SetEscapeHTML(true)")],
    ),
    (
        "tfrecord passes over the checksum of the data",
        ["./chunkindex/tfrecord"],
        [("chunkindex/tfrecord/scan.go", "if err == nil && binary.", "if err != nil && binary.")],
    ),
    (
        "jsonl takes a last line that was cut",
        ["./chunkindex/jsonl"],
        [("chunkindex/jsonl/scan.go", "case errors.Is(err, io.EOF) && len(s.long) > 0:\n", "case errors.Is(err, io.EOF) && len(s.long) > 0:\n\t\t\tif s.line > 1 {\n\t\t\t\treturn s.long, nil\n\t\t\t}\n")],
    ),
    (
        "jsonl takes bytes that are no characters",
        ["./chunkindex/jsonl"],
        [("chunkindex/jsonl/scan.go", "if !utf8.Valid(text) {", "if !utf8.Valid(text[:0]) {")],
    ),
    (
        "records trusts that all arrays are like the first",
        ["./chunkindex/records"],
        [("chunkindex/records/scan.go", "if !have.Equal(want) {", "if have.Size() < 0 {")],
    ),
    (
        "records takes the test set of CIFAR for training",
        ["./chunkindex/records"],
        [("chunkindex/records/cifar.go", "if len(files) == 0 {", "if true {")],
    ),
    (
        "tokens leaves out the token that two windows share",
        ["./chunkindex/tokens"],
        [("chunkindex/tokens/scan.go", "\t\tif err := s.out.Again(s.last); err != nil {\n\t\t\treturn err\n\t\t}\n", "")],
    ),
    (
        "tokens trusts an .idx whose sequences overlap",
        ["./chunkindex/tokens"],
        [("chunkindex/tokens/megatron.go", "if pointer != tokens*size {", "if pointer > tokens*size {")],
    ),
    (
        "pack trusts a finished shard that somebody has overwritten",
        ["./pack"],
        [("pack/write.go", "obj.Size == old.Size && obj.ETag == old.ETag, nil", "obj.Size == old.Size, nil")],
    ),
    (
        "pack does not look whether a file is still the one that it listed",
        ["./pack"],
        [("pack/write.go", "!os.SameFile(f.info, now) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())", "now.Size() != f.info.Size()")],
    ),
    (
        "gateway sends the parts of a form at the places of whole samples",
        ["./gateway"],
        [("gateway/pieces.go", "l.out = append(l.out, from[int64(p.offset)+first:int64(p.offset)+last])", "l.out = append(l.out, from[first:last])")],
    ),
    (
        "gateway keeps the order of the samples where fields name another",
        ["./gateway"],
        [("gateway/details.go", "\tchosen := make([]chunkindex.Part, 0, min(len(all), len(fields)))\n\tfor _, name := range fields {", "\tchosen := make([]chunkindex.Part, 0, min(len(all), len(fields)))\n\tfor _, name := range slices.Sorted(slices.Values(fields)) {")],
    ),
    (
        "gateway tells forms apart by nothing in an ETag",
        ["./gateway"],
        [("gateway/request.go", 'add("format", p.view.form.name)', 'add("format", p.dataset.forms[0].name)')],
    ),
    (
        "gateway resumes an answer of many batches at the wrong byte of a batch",
        ["./gateway"],
        [("gateway/stream.go", "mine := span{start: max(part.start-begin, 0)}", "mine := span{start: max(part.start-s.at, 0)}")],
    ),
    (
        "gateway's Arrow columns say that what is none is there",
        ["./gateway"],
        [("gateway/arrow/stream.go", "\t\t\tif !null {\n\t\t\t\tb[row/8]", "\t\t\tif !null || row > 0 {\n\t\t\t\tb[row/8]")],
    ),
    (
        "gateway's checksum leaves the last bytes out",
        ["./gateway"],
        [("gateway/pieces.go", "for i := range l.pieces {\n\t\tp := &l.pieces[i]\n\t\tif", "for i := range l.pieces[:len(l.pieces)-1] {\n\t\tp := &l.pieces[i]\n\t\tif")],
    ),
    (
        "gateway's ETag leaves the epoch out",
        ["integration:TestEveryAddressHasItsOwnETag"],
        [("gateway/request.go", "shuffle.OrderVersion, b.epoch, b.batch", "shuffle.OrderVersion, 0, b.batch")],
    ),
    (
        "gateway answers a range one byte short",
        ["./gateway"],
        [("gateway/conditional.go", "min(to, size-1) - from + 1}, rangePart", "min(to, size-1) - from}, rangePart")],
    ),
    (
        "gateway takes a parameter that is given twice",
        ["./gateway"],
        [("gateway/query.go", "case repeated:", "case repeated && name == part:")],
    ),
    (
        "gateway never gives up on a reader that has stopped reading",
        ["./gateway"],
        [("gateway/writer.go", "limit := now.Add(writeStall)", "limit := now.Add(24 * time.Hour)"),
         ("gateway/writer.go", "if end := w.began.Add(writeTotal); end.Before(limit) {", "if end := w.began.Add(writeTotal); end.IsZero() {")],
    ),
    (
        "gateway takes memory for a plan and does not give it back",
        ["./gateway"],
        [("gateway/gateway.go", "return r.Release, nil", "return func() { _ = r }, nil")],
    ),
    (
        "gateway sends no Retry-After",
        ["./gateway"],
        [("gateway/errors.go", "if p.RetryAfter > 0 {", "if p.RetryAfter < 0 {")],
    ),
    (
        "client does not compare the checksum",
        ["./client"],
        [("client/transfer.go", "; got != b.CRC {", "; got != got {")],
    ),
    (
        "client's ledger does not see a sample come twice",
        ["./client"],
        [("client/ledger.go", "if _, ok := l.keys[id]; ok {", "if _, ok := l.keys[id]; ok && l.samples == 0 {"),
         ("client/ledger.go", "if p[word]&bit != 0 {", "if p[word]&bit != 0 && l.samples == 0 {")],
    ),
    (
        "verify finds damage and exits as for any failure",
        ["./cmd/..."],
        [("cmd/millrace/exit.go", "case is(errCorrupt, chunkindex.ErrCorrupt, client.ErrCRC)", "case is(chunkindex.ErrCorrupt, client.ErrCRC)")],
    ),
    (
        "importance ranks the losses of each report by themselves",
        ["./importance"],
        [("importance/gather.go", "n < len(reports) && reports[n].Batch == reports[0].Batch", "n < 1")],
    ),
    (
        "importance lets the order of conflicting reports decide",
        ["./importance"],
        [("importance/fold.go", "cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.loss, b.loss))", "cmp.Compare(a.position, b.position)")],
    ),
    (
        "importance accepts a second loss for a position",
        ["./importance"],
        [("importance/log.go", "case r.Losses[i] != stored.Losses[j]:", "case false:")],
    ),
    (
        "importance takes the weight of a sample's lowest position",
        ["./importance"],
        [("importance/gather.go", "for i, s := range samples {", "for i := len(samples) - 1; i >= 0; i-- {\n\t\ts := samples[i]")],
    ),
    (
        "importance opens whatever lies under a snapshot's name",
        ["./importance"],
        [("importance/open.go", "found != want.digest {", "found == \"\" {")],
    ),
    (
        "importance sends its local log from the beginning after every failure",
        ["./importance"],
        [("importance/flush.go", "some, j.sent = some[:0], end", "some = some[:0]")],
    ),
    (
        "importance lets later losses of a kept batch overtake earlier ones",
        ["./importance"],
        [("importance/flush.go", "key := l.batchPrefix(r)", "key := l.key(r) + string(rune(len(byBatch)))")],
    ),
    (
        "importance folds more reports at a time than it has reserved memory for",
        ["./importance"],
        [("importance/gather.go", "groupBytes   = 8 << 20", "groupBytes   = 32 << 20")],
    ),
    (
        "importance leaves on the disk what kills have left of snapshots",
        ["./importance"],
        [("importance/open.go", "time.Since(file.at) > abandoned", "time.Since(file.at) < 0")],
    ),
    (
        "importance forgets what lies behind a damaged record",
        ["./importance"],
        [("importance/kept.go", "if i := bytes.Index(", "if i := -bytes.Index(")],
    ),
    (
        "diskcache does not compare the checksum of what it reads",
        ["./diskcache"],
        [("diskcache/read.go", "if crc32.Checksum(p.Dst, castagnoli()) != p.CRC32C {", "if crc32.Checksum(p.Dst, castagnoli()) != crc32.Checksum(p.Dst, castagnoli()) {")],
    ),
    (
        "diskcache does not compare the footer's key",
        ["./diskcache"],
        [("diskcache/read.go", "err != nil || got != key {", "err != nil || got.Length != key.Length {")],
    ),
    (
        "diskcache keeps what a kill left half written",
        ["./diskcache"],
        [("diskcache/scan.go", "_ = c.disk.remove(path.Join(chunkDir, sub, d.Name()))", "")],
    ),
    (
        "diskcache gives a file its name before it is whole",
        ["./diskcache"],
        [
            ("diskcache/write.go", "c.disk.write(temp, data,", "c.disk.write(n.file(), data,"),
            ("diskcache/write.go", "err = c.disk.rename(temp, n.file()); err != nil {", "err != nil {"),
        ],
    ),
    (
        "diskcache renames a file that is not on the medium",
        ["./diskcache"],
        [("diskcache/disk.go", "if err = d.sync(f, name); err != nil {", "if err != nil {")],
    ),
    (
        "diskcache writes over what is needed as soon",
        ["./diskcache", "./datapath"],
        [("diskcache/admit.go", "(there == Never || there/2 >= coming)", "(there == Never || there >= 0)")],
    ),
    (
        "diskcache keeps the room of a write that failed",
        ["./diskcache"],
        [("diskcache/write.go", "\t\tc.bytes -= e.size\n", "")],
    ),
    (
        "diskcache goes on writing to a full disk",
        ["./diskcache"],
        [("diskcache/cache.go", "breaker{most: 1}", "breaker{most: 1000}")],
    ),
    (
        "diskcache loses what it cannot remove",
        ["./diskcache"],
        [("diskcache/evict.go", "e.dead, e.stays = wrong, true", "e.dead, e.stays = true, true")],
    ),
    (
        "diskcache tries for ever to remove what stays",
        ["./diskcache"],
        [("diskcache/evict.go", "e.dead, e.stays = wrong, true", "e.dead = wrong")],
    ),
    (
        "diskcache runs into a file system that others have filled",
        ["./diskcache"],
        [("diskcache/admit.go", "\treturn wanted - free\n", "\treturn 0\n")],
    ),
    (
        "diskcache uses up its victims for what is not worth it",
        ["./diskcache"],
        [("diskcache/admit.go", "if ok && !worth(coming, v.next) {", "if ok && coming == Never {")],
    ),
    (
        "diskcache takes any marked directory",
        ["./diskcache"],
        [("diskcache/marker.go", "if len(m.Datasets) > 0 && !common {", "if len(m.Datasets) > 1000 && !common {")],
    ),
    (
        "datapath serves one place's claims from disk to readers of another",
        ["./datapath"],
        [("datapath/disk.go", "if !s.path.cfg.CheckSHA {\n\t\ts.origin", "if false {\n\t\ts.origin")],
    ),
    (
        "datapath counts a chunk that is in memory for its next use as needed at once",
        ["./datapath"],
        [("datapath/disk.go", "p.readers.Distance(s, chunk, s.resident(chunk))", "p.readers.Distance(s, chunk, false)")],
    ),
    (
        "gateway's manifest gives a dealt share the positions of a contiguous one",
        ["./gateway"],
        [("gateway/balance.go", "\tif l.scattered {\n\t\ti = l.places[i]\n\t}\n", "\t_ = l.scattered\n")],
    ),
    (
        "gateway's addresses and ETags leave the importance out",
        ["./gateway"],
        [("gateway/request.go", 'add("importance", p.params.Importance)', "_ = add")],
    ),
    (
        "gateway's addresses and ETags leave the split out",
        ["./gateway"],
        [("gateway/request.go", 'add("split", string(p.split))', "_ = add")],
    ),
    (
        "gateway reports a share that follows homes as if it were contiguous",
        ["./gateway"],
        [("gateway/importance.go", "if !b.scattered() {\n", "if !b.deals() {\n")],
    ),
    (
        "client reads a body that broke from its beginning",
        ["./client"],
        [("client/transfer.go", "if len(t.data) == 0 {", "if len(t.data) >= 0 {")],
    ),
    (
        "client asks a gateway again at once that has just failed",
        ["./client"],
        [("client/gateways.go", "g.until = now.Add(max(cooldown", "g.faults, g.until = 0, now.Add(-max(cooldown")],
    ),
    (
        "client takes a gateway back for answering small questions",
        ["./client"],
        [("client/near.go", "if !time.Now().Before(g.until) {", "if g != nil {")],
    ),
    (
        "client waits for a name server while gateways answer",
        ["./client"],
        [("client/names.go", "time.AfterFunc(renewTime-", "time.AfterFunc(lookupTime-")],
    ),
    (
        "gateway keeps the losses of each rank apart",
        ["./gateway"],
        [("gateway/importance.go", '"balance", "fields", "format", "rank", "split", "table", "world_size"', '"balance", "fields", "format", "split", "table", "world_size"')],
    ),
    (
        "gateway weighs the sample behind a virtual position by the number of the draw",
        ["./gateway"],
        [("gateway/snapshot.go", "if r.weights == nil {\n\t\treturn out, nil", "if out != nil {\n\t\treturn out, nil")],
    ),
    (
        "gateway warms from the beginning of the epoch again and again",
        ["./gateway"],
        [("gateway/warm.go", "at.First, at.End = from,", "at.First, at.End = 0,")],
    ),
    (
        "datapath takes a chunk from disk without its SHA-256",
        ["./datapath"],
        [("datapath/disk.go", "if s.path.cfg.CheckSHA && !s.intact(", "if false && !s.intact(")],
    ),
    (
        "lookahead takes every reader for one in a hurry",
        ["./lookahead", "./datapath"],
        [("lookahead/reader.go", "\treturn d.samples / d.seconds\n", "\treturn quick\n")],
    ),
    (
        "lookahead measures demand by progress, so that who waits gets less",
        ["./lookahead"],
        [("lookahead/ranks.go", "thought = now.Sub(k.done)", "thought = now.Sub(k.seen)")],
    ),
    (
        "lookahead asks the first reader only when a chunk is needed next",
        ["./lookahead", "./datapath"],
        [("lookahead/next.go", "if soonest.IsZero() || due.Before(soonest) {", "if soonest.IsZero() {")],
    ),
    (
        "lookahead thinks that what only the next epoch needs is needed at once",
        ["./lookahead", "./datapath"],
        [("lookahead/next.go", "return begin + s.total + s.own(chunk)", "return begin + s.own(chunk)")],
    ),
    (
        "lookahead keeps a straggler's chunks only where there is room to spare",
        ["./lookahead"],
        [("lookahead/horizon.go", "\ta.behind(r.readers, true)\n\ta.soon(r.readers)\n", "\ta.soon(r.readers)\n\ta.behind(r.readers, true)\n")],
    ),
    (
        "datapath lets chunks go that a reader comes for soon",
        ["./datapath"],
        [("datapath/marks.go", "p.cache.Rewarm(soon, changed(old, wanted))", "p.cache.Rewarm(soon, changed(old, old))")],
    ),
    (
        "datapath goes on with reads for a reader that has jumped",
        ["./datapath"],
        [("datapath/marks.go", "\tp.flights.keep(is)\n", "")],
    ),
    (
        "lookahead lets each newcomer drive out another reader",
        ["./lookahead"],
        [("lookahead/readers.go", "idle := x.announced || x.reading == 0 && now.Sub(x.seen) > readerNew", "idle := true")],
    ),
    (
        "lookahead leaves the horizon as it is though a batch needs more",
        ["./lookahead"],
        [("lookahead/horizon.go", "|| !x.squeezed && !x.ready(r.horizon.Load())", "")],
    ),
    (
        "datapath lets those who warm take the whole line",
        ["./datapath"],
        [("datapath/gate.go", "\tif g.starved {\n", "\tif false {\n")],
    ),
    (
        "simulate gives every transfer the whole line",
        ["./simulate"],
        [("simulate/line.go", "l.free = max(l.free, l.clock.now) + seconds", "l.free = l.clock.now + seconds")],
    ),
    (
        "simulate forgets which chunks a reader comes for soon",
        ["./simulate"],
        [("simulate/ahead.go", "\tg.memory.shelf.Rewarm(soon, changed)\n", "")],
    ),
    (
        "simulate lets ranks ask for nothing ahead",
        ["./simulate"],
        [("simulate/rank.go", "k.asked <= k.at+ahead", "k.asked <= k.at")],
    ),
    (
        "simulate forgets the link of the gateway that answers",
        ["./simulate"],
        [("simulate/cluster.go", "through(n, done, from.up, to.down)", "through(n, done, to.down)")],
    ),
    (
        "simulate lets a gateway fetch ahead what others own",
        ["./simulate"],
        [("simulate/gateway.go", "return g.cluster.owner(int32(chunk)) == g }", "return true }")],
    ),
    (
        "simulate gives a part of a fleet the whole store",
        ["./simulate"],
        [("simulate/fleet.go", "s.Rate*by, s.StoreRate*by", "s.Rate*by, s.StoreRate")],
    ),
    (
        "cluster leaves chunks with an owner that is ejected",
        ["./cluster"],
        [("cluster/member.go", "return !m.gone && !m.ejected && !m.draining", "return !m.gone && !m.draining")],
    ),
    (
        "cluster trusts the owners of before when a member has gone",
        ["./cluster"],
        [
            ("cluster/view.go", "if m.gone || m.draining {", "if m.draining {"),
            ("cluster/member.go", "return !m.gone && !m.ejected", "return !m.ejected"),
        ],
    ),
    (
        "cluster takes in the gateways of another cluster",
        ["./cluster"],
        [("cluster/check.go", "case h.Cluster != c.cfg.Name:", "case false:")],
    ),
    (
        "cluster asks a member that it has ejected",
        ["./cluster"],
        [("cluster/read.go", "m == nil || m.gone || m.ejected {", "m == nil || m.gone {")],
    ),
    (
        "cluster lets an ejected member in again at its first hello",
        ["./cluster"],
        [("cluster/member.go", "m.ejected && !begun.Before(m.until)", "m.ejected")],
    ),
    (
        "cluster takes the second of two machines of one name",
        ["./cluster"],
        [("cluster/check.go", "m.gone || m.draining || m.misses > 0 {", "true {")],
    ),
    (
        "cluster goes by what it heard of a gateway that it cannot reach",
        ["./cluster"],
        [
            ("cluster/check.go", "\t\t\tk.awake()\n", "\t\t\tc.alive(k, h, time.Now())\n"),
            ("cluster/check.go", '\t"fmt"\n', '\t"fmt"\n\t"time"\n'),
        ],
    ),
    (
        "cluster believes anybody who says that a member goes",
        ["./cluster"],
        [("cluster/leave.go", "return c.contacts[m.address], m.draining", "return c.contacts[m.address], true")],
    ),
    (
        "cluster lets one host name any number of addresses",
        ["./cluster"],
        [("cluster/contact.go", "if named >= mostNamed {", "if named < 0 {")],
    ),
    (
        "cluster gives its chunks back to a member after each crash",
        ["./cluster"],
        [("cluster/member.go", "if m.crashes > 1 {", "if m.crashes > 1000 {")],
    ),
    (
        "datapath serves what a peer sent without comparing it with the index",
        ["./datapath"],
        [("datapath/ask.go", "if checksum(a.segments[r.Seq]) == r.CRC32C {", "if true {")],
    ),
    (
        "datapath keeps what a peer sent along without comparing it with the index",
        ["./datapath"],
        [("datapath/along.go", "for _, lost := range [][]chunkindex.ChunkRanges{refused, wrong} {", "for _, lost := range [][]chunkindex.ChunkRanges{refused} {\n\t\t_ = wrong")],
    ),
    (
        "datapath asks peers for what a peer asks of it",
        ["./datapath"],
        [("datapath/answer.go", "body, err = s.bringHere(ctx, shuffle.Cursor{}, b)", "b.answers = false\n\t\tbody, err = s.bring(ctx, shuffle.Cursor{}, b)")],
    ),
    (
        "datapath waits for memory while a peer waits for its answer",
        ["./datapath"],
        [("datapath/source.go", "\tif !b.answers {\n\t\treturn s.path.cache.Buffer", "\tif true {\n\t\treturn s.path.cache.Buffer")],
    ),
    (
        "datapath trusts an owner of a view that is over",
        ["./datapath"],
        [("datapath/owners.go", "if o.view == view && o.params == params {", "if o.params == params {")],
    ),
    (
        "datapath brings whole chunks that another gateway keeps",
        ["./datapath"],
        [("datapath/source.go", "if s.name != \"\" && !b.trusts && s.owner(b.plan, c.Chunk) != \"\" {", "if false {")],
    ),
    (
        "datapath has every gateway warm every chunk",
        ["./datapath"],
        [("datapath/warm.go", "if s.name != \"\" && s.owner(at.Plan, int(span.Chunk)) != \"\" {", "if false {")],
    ),
    (
        "datapath keeps a chunk of its former owner without comparing it with the index",
        ["./datapath"],
        [("datapath/former.go", "if !s.intact(desc, dst, checksum(dst)) {", "if false {")],
    ),
    (
        "datapath asks a former owner to load a chunk",
        ["./datapath"],
        [("datapath/former.go", "Generation: s.index.Generation(), Cached: true,", "Generation: s.index.Generation(),")],
    ),
    (
        "datapath asks peers for what is in memory",
        ["./datapath"],
        [("datapath/ask.go", "if member == \"\" || s.Resident(chunk) || s.readsDisk(chunk) {", "if member == \"\" {")],
    ),
    (
        "datapath keeps what was sent along for readers that have gone",
        ["./datapath"],
        [("datapath/prefetch.go", "\t\tp.carry.expire(p.readers.Stands, now)\n", "")],
    ),
    (
        "datapath asks for a sample twice that is under way",
        ["./datapath"],
        [("datapath/carry.go", "ok && !l.samples[n].taken {", "ok && !l.samples[n].taken && l.arrived {")],
    ),
    (
        "datapath keeps the stock of a rank that has jumped",
        ["./datapath"],
        [("datapath/carry.go", "\t\tc.empty(other)\n", "\t\t_ = other\n")],
    ),
    (
        "lookahead comes for chunks that other gateways keep",
        ["./lookahead"],
        [("lookahead/horizon.go", "if !r.mine(x.dataset, x.at.Plan, u.Chunk) {", "if false {")],
    ),
    (
        "lookahead keeps what it looked for when the owners change",
        ["./lookahead"],
        [("lookahead/readers.go", "x.looked, x.future = false, x.future[:0]", "x.looked = false")],
    ),
    (
        "lookahead takes readers elsewhere for readers in a hurry",
        ["./lookahead"],
        [("lookahead/reader.go", "\t\tx.distant, x.told = d, now\n", "\t\tx.told = now\n")],
    ),
    (
        "peer answers what another gateway has passed on",
        ["./peer"],
        [("peer/handler.go", "!slices.Equal(got, []string{Hop}) {", "len(got) > 9 {")],
    ),
    (
        "peer answers another cluster",
        ["./peer"],
        [("peer/handler.go", "!slices.Equal(got, []string{own}) {", "len(got) > 9 {")],
    ),
    (
        "peer takes a body that is too short",
        ["./peer"],
        [("peer/read.go", "if _, err := io.ReadFull(in, p); err != nil {", "if n, err := io.ReadFull(in, p); err != nil && n == 0 {")],
    ),
    (
        "peer takes a body of any length",
        ["./peer"],
        [("peer/read.go", "if resp.ContentLength != total {", "if resp.ContentLength < 0 {")],
    ),
    (
        "peer does not compare a query's checksum",
        ["./peer"],
        [("peer/codec.go", "if crc32.Checksum(text, castagnoli()) != binary", "if false && crc32.Checksum(text, castagnoli()) != binary")],
    ),
    (
        "peer makes room for as many chunks as a query promises",
        ["./peer"],
        [("peer/codec.go", "in.number(uint64(len(in.rest) / minChunk))", "min(in.number(1<<40), 1<<20)")],
    ),
    (
        "peer gives no sign of life while it loads",
        ["./peer"],
        [("peer/handler.go", "\t\t\tout.sign()\n", "")],
    ),
    (
        "peer lets whoever the CA has signed in",
        ["./peer"],
        [("peer/tls.go", "if len(cfg.Allow) == 0 {", "if len(cfg.Allow) < 9 {")],
    ),
    (
        "peer waits for ever for a body that rests",
        ["./peer"],
        [("peer/watch.go", "left := min(w.end.Sub(now), w.last.Add(w.silence).Sub(now))", "left := w.end.Sub(now)")],
    ),
    (
        "cmd/millrace takes whoever the authority has signed for a member",
        ["integration:TestStrangersAreRefused"],
        [("cmd/millrace/serve_peers.go", "Allow: c.allow, ", "")],
    ),
    (
        "cmd/millrace goes without telling what it holds",
        ["integration:TestComingAndGoingReadsNothing"],
        [("cmd/millrace/serve_peers.go", "if err := p.cluster.Leave(ctx, held); err != nil {", "if err := error(nil); err != nil {")],
    ),
    (
        "cmd/millrace gossips without its key",
        ["integration:TestGossipJoin"],
        [("cmd/millrace/serve_peers.go", "KeyFile: c.gossipKey, ", "")],
    ),
    (
        "datapath lets those who wait for peers take all the memory",
        ["./datapath"],
        [("datapath/gather.go", "if a.bytes.Acquire(ctx, n) != nil {", "if true {")],
    ),
    (
        "cluster says nothing of a change of owners",
        ["./internal/clustersim"],
        [("cluster/view.go", "s.number = before.number + 1", "s.number = before.number")],
    ),
    (
        "peer counts a question that has ended as one that is asked",
        ["./internal/clustersim"],
        [("peer/read.go", "\tdefer give()\n", "\t_ = give\n")],
    ),
    (
        "datapath keeps the leases of a batch that peers had a part in",
        ["./internal/clustersim"],
        [("datapath/gather.go", "\tif g.leases != nil {\n\t\tg.leases.Close()\n\t}\n\tg.giveBack()", "\tg.giveBack()")],
    ),
    (
        "datapath gives one question all the time of a request",
        ["./datapath"],
        [("datapath/ask.go", "const peerPart = 2", "const peerPart = 1")],
    ),
    (
        "datapath asks no former owner",
        ["./internal/clustersim"],
        [("datapath/former.go", '\tcase s.name == "" || s.owner(f.plan, chunk) != "":', "\tcase true:")],
    ),
    (
        "datapath tells peers of another rank than reads",
        ["./internal/clustersim"],
        [("datapath/ask.go", "Rank: at.Rank, WorldSize: at.WorldSize,", "Rank: at.Rank / 2, WorldSize: at.WorldSize,")],
    ),
    (
        "the Python client takes a body that ends early",
        ["python:test_faults.py"],
        [("client/python/millrace/_transfer.py", 'raise ConnectionError("the connection was closed")', "break")],
    ),
    (
        "the Python client goes on with a body of whatever ETag",
        ["python:test_faults.py"],
        [("client/python/millrace/_transfer.py", '-", "If-Range": self._etag}', '-"}')],
    ),
    (
        "the Python client reads into a buffer that somebody looks at",
        ["python:test_pool.py"],
        [("client/python/millrace/_arena.py", " and _free(b):", ":")],
    ),
    (
        "the Python client pins no generation",
        ["python:test_faults.py"],
        [("client/python/millrace/client.py", 'if k not in ("format", "fields", "table")}', 'if k not in ("format", "fields", "table", "generation")}'),
         ("client/python/millrace/client.py", 'generation=said["generation"]', 'generation=d["parameters"]["generation"]')],
    ),
    (
        "the Python client's ledger overlooks what came twice",
        ["python:test_read.py"],
        [("client/python/millrace/ledger.py", "self._twice.append((a, min(b, end)))", "pass")],
    ),
    (
        "the Python client's threads wait for a decoder while nothing is fetched",
        ["python:test_pool.py"],
        [("client/python/millrace/_pool.py", "if can_fetch and not self._fetching:", "if can_fetch and not self._fetching and not self._slots:")],
    ),
    (
        "datapath reads every sample of a chunk of objects from the first one",
        ["./datapath"],
        [("datapath/reads.go", "i, offset := l.from(offset)", "i, offset := 0, offset")],
    ),
    (
        "datapath takes a compressed chunk that decodes for one that is right",
        ["./datapath"],
        [("datapath/arrival.go", "a.right = a.decode() && s.intact(", "a.right = a.decode() || s.intact(")],
    ),
    (
        "datapath waits for all objects of a chunk when a few are wanted",
        ["./datapath"],
        [("datapath/source.go", "return s.resident(c.Chunk) || wanted", "return true || wanted")],
    ),
    (
        "datapath keeps a body's memory while it waits for more to decode in",
        ["./datapath"],
        [("datapath/source.go", "\troom.Close()\n\tif b.answers {", "\tif b.answers {")],
    ),
    (
        "chunkcache loses the memory that a load had beside its chunk",
        ["./chunkcache"],
        [("chunkcache/flight.go", "\t\tc.putFree(f.beside)\n", "")],
    ),
    (
        "torch's workers count on from the batch that they have yielded, as if each were alone",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "self._next = batch.number + self._step", "self._next = batch.number + 1")],
    ),
    (
        "torch's spawned workers do not know their parent's rank",
        ["python:torch/test_torch_distributed.py"],
        [("client/python/millrace/torch.py", '"_ranks_of_parent": self.ranks()', '"_ranks_of_parent": None')],
    ),
    (
        "torch's loader says that what it read ahead was yielded",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "self._count.place = epoch, number + 1", "self._count.place = epoch, number + 2")],
    ),
    (
        "torch's dataset goes on from a state of another order",
        ["python:torch/test_torch_state.py"],
        [("client/python/millrace/torch.py", "            self._check(epoch)\n", "")],
    ),
    (
        "torch's loader leaves a failed pass's workers to the garbage collector",
        ["python:torch/test_torch_loader.py"],
        [("client/python/millrace/torch.py", "        if end is not None:\n            end()\n", "")],
    ),
    (
        "the client of the page takes a damaged body",
        ["conformance:client python"],
        [("conformance/clients/stdlib.py", "if crc32c(body) == int(", "if crc32c(body) != 0 or int(")],
    ),
    (
        "the client of the page appends a whole body to a part of it",
        ["conformance:client node"],
        [("conformance/clients/reader.mjs", "(chunks = []), (have = 0), (size = ", "(size = ")],
    ),
    (
        "the gateway says of chosen parts where they lie in the stored sample",
        ["conformance:gateway"],
        [("gateway/framed.go", "\t\t\tp.Offset = lengths[i]\n", "")],
    ),
    (
        "the gateway gives the rest of a body, whatever If-Range says",
        ["conformance:gateway"],
        [("gateway/conditional.go", "strings.TrimSpace(cond[0]) != etag", "strings.TrimSpace(cond[0]) == \"\"")],
    ),
]
