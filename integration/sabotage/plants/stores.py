"""Planted bugs of the stores."""

PLANTS = [
    (
        "s3backend sends no If-Match and compares no ETag",
        "./s3backend TestLateAnswerIsAskedForAgain",
        [
            ("s3backend/read.go", 'opts.Set("If-Match", `"`+ref.ETag+`"`)', "_ = ref.ETag"),
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
        [("s3backend/read.go", "s.filled, a.got = 0, 0", "s.filled = 0")],
    ),
]
