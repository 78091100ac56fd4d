"""Stores: they fail, throttle, lie and change; a read names an ETag, and a write names a condition."""

PLANTS = [
    (
        "s3backend sends no If-Match and ignores the ETag of the answer",
        "./s3backend TestLateAnswerIsAskedForAgain",
        [
            ("s3backend/endpoint.go", 'set(header, "If-Match", `"`+ref.ETag+`"`)', "_ = ref.ETag"),
            ("s3backend/read.go", 'case want != "" && etag != want:', "case false:"),
        ],
    ),
    (
        "s3backend accepts a body that is longer than the range",
        "./s3backend TestLies",
        [("s3backend/read.go", "n, _ := io.ReadFull(body, extra[:]); n > 0", "n, _ := io.ReadFull(body, extra[:]); n > 1")],
    ),
    (
        "s3backend resumes a broken body one byte too far",
        "./s3backend TestCutAtEveryByte",
        [("s3backend/read.go", "offset+s.filled, n-s.filled)", "offset+s.filled+min(s.filled, 1), n-s.filled)")],
    ),
    (
        "s3backend leaves the session token out of the signature",
        "./s3backend TestSignsAsMinIOGoDoes",
        [("s3backend/sign.go", '\t\t{"X-Amz-Security-Token", ";x-amz-security-token"},\n', "")],
    ),
    (
        "directory store ignores the version of a file",
        "./internal/objstore/dirstore TestRewriteDuringRead",
        [("internal/objstore/dirstore/dirstore.go", 'etag != "" && o.ETag != etag', "false && o.ETag != etag")],
    ),
    (
        "disk cache mixes up equal buckets at two endpoints",
        "./integration TestSameBucketAtTwoEndpoints",
        [("cmd/internal/node/keeper.go", "KeepOnDisk(k.node.cfg.Stores.Place(l))", "KeepOnDisk(l.Bucket + l.Prefix)")],
    ),
    (
        "index publishes without a condition",
        "./chunkindex/build TestRun_LosesToAConcurrentRun",
        [
            ("chunkindex/build/publish.go", "cond.IfAbsent = true", "cond.IfAbsent = false"),
            ("chunkindex/build/publish.go", "cond.IfMatch = p.oldObj.ETag", 'cond.IfMatch = ""'),
        ],
    ),
    (
        "index takes a failed read for the end of a shard",
        "./chunkindex/format TestCursor_FalseLengths",
        [("chunkindex/format/cursor.go", "if err := c.fill(n); err == io.EOF {", "if err := c.fill(n); err != nil {")],
    ),
    (
        "pack ignores that a file changed after it was listed",
        "./chunkindex/pack TestFileChangesWhileRead",
        [("chunkindex/pack/write.go", "!os.SameFile(f.info, now) || now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime())", "now.Size() != f.info.Size()")],
    ),
]
