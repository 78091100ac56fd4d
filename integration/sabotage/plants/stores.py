"""Planted bugs of the stores."""

PLANTS = [
    (
        "s3backend sends no If-Match and compares no ETag",
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
        "the directory store does not compare versions",
        "./internal/objstore/dirstore TestRewriteDuringRead",
        [("internal/objstore/dirstore/dirstore.go", 'etag != "" && o.ETag != etag', "false && o.ETag != etag")],
    ),
    (
        "the directory store's ETag leaves the time out",
        "./internal/objstore/dirstore TestRewriteDuringRead",
        [("internal/objstore/dirstore/dirstore.go", "info.ModTime().UnixNano(), inode)", "0, inode)")],
    ),
    (
        "s3backend takes a body that is too long for progress",
        "./s3backend TestABodyThatIsTooLongIsGivenUp",
        [("s3backend/read.go", "s.filled, a.got = before, 0", "s.filled = before")],
    ),
    (
        "s3backend signs with the key of another day",
        "./s3backend TestKeyOfTheDay",
        [("s3backend/sign.go", "k.day == day && k.secret == secret", "k.secret == secret")],
    ),
    (
        "s3backend signs with the key of another secret",
        "./s3backend TestKeyOfTheDay",
        [("s3backend/sign.go", "k.day == day && k.secret == secret", "k.day == day")],
    ),
    (
        "s3backend leaves the session token of temporary credentials out of the signature",
        "./s3backend TestSignsAsMinIOGoDoes",
        [("s3backend/sign.go", '\t\t{"X-Amz-Security-Token", ";x-amz-security-token"},\n', "")],
    ),
    (
        "s3backend leaves a plus sign in a path as it is",
        "./s3backend TestSignsAsMinIOGoDoes",
        [("s3backend/sign.go", 'strings.IndexByte("-_.~", c)', 'strings.IndexByte("-_.~+", c)')],
    ),
    (
        "s3backend takes another region than the one that the user names",
        "./s3backend TestRegion",
        [("s3backend/backend.go", 'f.region != "" && !moved && b.cfg.Region == ""', 'f.region != "" && !moved')],
    ),
    (
        "s3backend lets a store name a host as its region",
        "./s3backend TestRegionThatIsNone",
        [("s3backend/errors.go", "bucket != signed && regionName.MatchString(bucket)", 'bucket != signed && bucket != ""')],
    ),
    (
        "s3backend moves from region to region for ever",
        "./s3backend TestRegionThatIsNone",
        [("s3backend/backend.go", "if moved = true; b.move", "if moved = false; b.move")],
    ),
    (
        "s3backend signs a read without credentials",
        "./s3backend TestNoCredentials",
        [("s3backend/endpoint.go", "if !v.SignerType.IsAnonymous() {", "if true {")],
    ),
    (
        "s3backend takes the wait for bandwidth for slowness of the store",
        "./s3backend TestBandwidthIsShared",
        [
            (
                "s3backend/read.go",
                "s.fill(b.throttle(ctx, &watchedBody{body: ans.body, watchdog: a.watchdog, policy: &b.policy}))",
                "s.fill(&watchedBody{body: b.throttle(ctx, ans.body), watchdog: a.watchdog, policy: &b.policy})",
            )
        ],
    ),
    (
        "each read has the bandwidth of all",
        "./s3backend TestBandwidthIsShared",
        [("s3backend/bandwidth.go", "return throttledReader{ctx, body, b.bandwidth}", "return throttledReader{ctx, body, newPace(int64(b.bandwidth.Limit()))}")],
    ),
    (
        "a profile's credentials come behind those of the environment",
        "./s3backend TestProfilesGiveTheirOwnCredentials",
        [("s3backend/config.go", "if c.Profile != \"\" {\n\t\tclient.", "if c.Profile != \"\" && os.Getenv(\"AWS_ACCESS_KEY_ID\") == \"\" {\n\t\tclient.")],
    ),
    (
        "what a source of credentials says is repeated",
        "./s3backend TestRolesThatAreRefused",
        [("s3backend/profile.go", "clip(answer.STSError.Code)", "answer.STSError.Message")],
    ),
    (
        "buckets of one name are one place, whatever their endpoint",
        "./cmd/internal/location TestPlaces",
        [("cmd/internal/location/stores.go", "Service{Endpoint: endpoint, Region: region,", "Service{Endpoint: endpoint[:0], Region: region,")],
    ),
    (
        "the disk tier tells no endpoints apart",
        "integration TestSameBucketAtTwoEndpoints",
        [("cmd/internal/node/keeper.go", "KeepOnDisk(k.node.cfg.Stores.Place(l))", "KeepOnDisk(l.Bucket + l.Prefix)")],
    ),
    (
        "an address that is refused is printed with its secret",
        "./cmd/millrace TestNothingPrintedHoldsASecret",
        [("cmd/internal/location/location.go", '"://" + hideParameters(rest)', '"://" + rest')],
    ),
    (
        "two datasets share a limit of bandwidth",
        "./cmd/internal/location TestEqualServicesShareABackend",
        [("cmd/internal/location/stores.go", "key.dataset = l.Name", "_ = l.Name")],
    ),
    (
        "a store that holds reads back moves the places",
        "./datapath TestReadsThatAreHeldBackMoveNoPlaces",
        [("datapath/climb.go", "if r.wanted && !r.paced {", "if r.wanted {")],
    ),
    (
        "a directory that was replaced stays the old one for what is looked up",
        "./internal/objstore/dirstore TestADirectoryThatIsReplaced",
        [("internal/objstore/dirstore/dirstore.go", "\ts.renew()\n\to, err := s.stat(ctx, key)", "\to, err := s.stat(ctx, key)")],
    ),
    (
        "a directory that was replaced stays the old one for what is read",
        "./internal/objstore/dirstore TestADirectoryThatIsReplaced",
        [("internal/objstore/dirstore/dirstore.go", "if err != nil && s.renew() != was {", "if err == nil && s.renew() != was {")],
    ),
    (
        "a copy with the same bytes is corruption",
        "./chunkindex/build TestVerify",
        [("chunkindex/verify.go", "if v.store.ReadRange(ctx, now, e.Offset, buf) == nil {", "if v.store.ReadRange(ctx, now, e.Offset, buf) == nil && v == nil {")],
    ),
    (
        "an object that has grown counts as a copy with the same bytes",
        "./chunkindex/build TestVerify",
        [("chunkindex/verify.go", "v.store.ReadRange(ctx, now, last+1, one) == nil)", "false)")],
    ),
    (
        "a damaged object that is another version is a copy with the same bytes",
        "./chunkindex/build TestVerify",
        [("chunkindex/verify.go", "v.changed[b.Shard], b.Cause = true,", "v.changed[b.Shard], b.Cause = false,")],
    ),
    (
        "the error of the store names no object",
        "./gateway TestDamagedStore",
        [("gateway/errors.go", "chunkindex.Explain(at.Key, objstore", 'chunkindex.Explain("an object", objstore')],
    ),
    (
        "AWS is asked without a word where no endpoint is set",
        "./s3backend TestNoEndpointIsSet",
        [("s3backend/backend.go", 'unnamed := f.cause != nil && b.cfg.Endpoint == ""', 'unnamed := f.cause == nil && b.cfg.Endpoint == ""')],
    ),
    (
        "a bad endpoint is told with the password in it",
        "./s3backend TestBadEndpoint",
        [("s3backend/config.go", 'if !strings.Contains(c.Endpoint, "@") {', "if true {")],
    ),
]
