"""ETags: one ETag names one sequence of bytes, and conditions and ranges never return parts of another one."""

PLANTS = [
    (
        "gateway leaves the epoch out of the ETag",
        "./integration TestEveryAddressHasItsOwnETag",
        [("gateway/address/batch.go", "shuffle.OrderVersion, b.Epoch, b.Number", "shuffle.OrderVersion, 0, b.Number")],
    ),
    (
        "gateway leaves the form out of the ETag",
        "./gateway TestEveryFormIsOneBody",
        [("gateway/address/parameters.go", "string { return p.View.Form.Name }", 'string { return "tar" }')],
    ),
    (
        "gateway ignores If-Match",
        "./gateway TestIfMatchIsHeldTo",
        [("gateway/headers.go", "len(match) > 0 && !conditional.Names(match", "len(match) > 9 && !conditional.Names(match")],
    ),
    (
        "gateway answers a range one byte short",
        "./gateway TestRanges",
        [("gateway/conditional/conditional.go", "min(to, end-1) - from + 1)}, Part", "min(to, end-1) - from)}, Part")],
    ),
    (
        "gateway resumes an answer of many batches at the wrong byte of a batch",
        "./gateway TestEveryFormIsOneBody",
        [("gateway/batches.go", "mine := body.Span{Start: max(part.Start-begin, 0)}", "mine := body.Span{Start: max(part.Start-s.at, 0)}")],
    ),
    (
        "gateway ignores If-Range",
        "conformance gateway",
        [("gateway/conditional/conditional.go", "strings.TrimSpace(cond[0]) != etag", "strings.TrimSpace(cond[0]) == \"\"")],
    ),
    (
        "gateway accepts a star within a list of ETags",
        "./integration TestConditionalAndRangeRequests",
        [("gateway/conditional/conditional.go", 'len(lines) == 1 && strings.TrimSpace(lines[0]) == "*"', 'strings.Contains(strings.Join(lines, ","), "*")')],
    ),
    (
        "Python client resumes a body under another ETag",
        "client/python/tests/test_hostile.py test_the_rest_of_other_bytes",
        [("client/python/millrace/_http/gateways.py", '-", "If-Range": self._head.etag}', '-"}')],
    ),
    (
        "Go client appends a whole body to the part that it has",
        "./client TestBrokenBodyGoesOnElsewhere",
        [("client/transfer.go", "if len(t.data) == 0 {", "if len(t.data) >= 0 {")],
    ),
]
