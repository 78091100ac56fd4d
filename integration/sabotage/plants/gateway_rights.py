"""Planted bugs of the gateway's rights, limits and audit log."""

PLANTS = [
    (
        "rights: a route that writes asks for read alone",
        "./gateway TestEveryRouteNamesItsRight",
        [("gateway/routes.go", '{post, dataset + "/warm", warm, 0, g.postWarm}', '{post, dataset + "/warm", read, 0, g.postWarm}')],
    ),
    (
        "rights: a route of the admin port needs no right",
        "./gateway TestEveryRouteNamesItsRight",
        [("gateway/routes.go", '"/debug/pprof/cmdline", auth.Admin', '"/debug/pprof/cmdline", auth.None')],
    ),
    (
        "rights: the short path is authorized as no dataset",
        "./gateway TestMatrix",
        [("gateway/access.go", 'if !ofDataset && x.route.right == auth.Read || g.may', 'if strings.HasPrefix(x.route.pattern, "/epoch/") || !ofDataset && x.route.right == auth.Read || g.may')],
    ),
    (
        "rights: a mixture is read without its sources",
        "./gateway TestMatrix",
        [("gateway/access.go", "!ok || d.parts == nil || g.access", "ok || d.parts == nil || g.access")],
    ),
    (
        "rights: one source of a mixture is enough",
        "./gateway TestMatrix",
        [("gateway/access.go", "slices.ContainsFunc(d.parts, func", "slices.ContainsFunc(d.parts[:1], func")],
    ),
    (
        "rights: who may not read a dataset learns that it is there",
        "./gateway TestMatrix",
        [("gateway/access.go", "readable := ofDataset && g.isServed(name) && g.may(p, auth.Read, name)", "readable := ofDataset && g.isServed(name)")],
    ),
    (
        "rights: bad credentials get no challenge",
        "./gateway TestMatrix",
        [("gateway/errors.go", 'if p.Challenge != "" {', 'if p.Challenge == "" {')],
    ),
    (
        "rights: a dataset without a name is for everybody",
        "./gateway TestMatrix",
        [("gateway/access.go", "if !ofDataset && x.route.right == auth.Read ||", 'if name == "" && x.route.right == auth.Read ||')],
    ),
    (
        "rights: the list has what the caller may not read",
        "./gateway TestListsLeaveOut",
        [("gateway/datasets.go", "if g.may(x.principal, auth.Read, d.Name()) {", "if g.may(x.principal, auth.Read, d.Name()) || !x.principal.Anonymous() {")],
    ),
    (
        "rights: a long answer outlives the rights to it",
        "./gateway TestRevokedDuringALongAnswer",
        [("gateway/access.go", "		return fmt.Errorf(\"%w: %w\", errRevoked, err)\n", "		return nil\n")],
    ),
    (
        "rights: the end of a long answer is in no audit log",
        "./gateway TestRevokedDuringALongAnswer",
        [("gateway/batches.go", "x.refused = errors.Is(err, errRevoked)", "_ = errRevoked")],
    ),
    (
        "rights: what is there is looked up with more steps",
        "./gateway TestRefusedLookupsAreAlike",
        [("gateway/access.go", "	if !g.access.May(p, right, name) {\n		return false\n", "	if !g.access.May(p, right, name) {\n		if d := g.byName[name]; d != nil {\n			_ = g.caller(&exchange{principal: auth.Principal{Name: d.Name() + right.String()}})\n			_ = fmt.Sprint(d)\n		}\n		return false\n")],
    ),
    (
        "rights: refusals do not count against a limit",
        "./gateway TestLimitsOfCallers",
        [("gateway/access.go", "	name, ofDataset := g.datasetName(x)\n	if err := g.permit(x, x.principal, name, ofDataset); err != nil {\n		return err\n	}\n", "	name, ofDataset := g.datasetName(x)\n"),
         ("gateway/access.go", "	// Refusals count too", "	if name, ofDataset := g.datasetName(x); g.permit(x, x.principal, name, ofDataset) != nil {\n		return g.permit(x, x.principal, name, ofDataset)\n	}\n	// Refusals count too")],
    ),
    (
        "rights: every IPv6 address has a limit of its own",
        "./gateway TestLimitsOfCallers",
        [("gateway/origin/forwarded.go", "at.Prefix(64)", "at.Prefix(128)")],
    ),
    (
        "rights: the log shows tokens in addresses",
        "./gateway TestSecretsInTheWrongPlace",
        [("gateway/accesslog.go", 'e.Str("error", auth.Conceal(cause.Error()))', 'e.Str("error", cause.Error())')],
    ),
    (
        "rights: the log shows tokens as user agents",
        "./gateway TestSecretsInTheWrongPlace",
        [("gateway/accesslog.go", "cutTo(auth.Conceal(x.r.UserAgent()), maxUserAgent)", "cutTo(x.r.UserAgent(), maxUserAgent)")],
    ),
    (
        "rights: the log names datasets that are refused",
        "./gateway TestMatrix",
        [("gateway/accesslog.go", "	case !x.refused:\n", "	default:\n")],
    ),
    (
        "origin: a name that begins as this machine's is taken for it",
        "./gateway/origin TestHostOnLoopback",
        [("gateway/origin/origin.go", 'name == "localhost" ||', 'strings.HasPrefix(name, "localhost") ||')],
    ),
    (
        "origin: an empty first header hides a token that came without TLS",
        "./gateway/origin TestTokensWithoutTLS",
        [("gateway/origin/origin.go", 'len(r.Header.Values("Authorization")) == 0', 'r.Header.Get("Authorization") == ""')],
    ),
    (
        "audit: a line that lacked its end alone comes twice",
        "./gateway/audit TestTornLines",
        [("gateway/audit/audit.go", "if torn && n < len(l.kept)", "if torn && n > len(l.kept)")],
    ),
    (
        "audit: the log goes on in the file that was moved away",
        "./gateway/audit TestFileMovedAway",
        [("gateway/audit/audit.go", "os.SameFile(there, here)", "(os.SameFile(there, here) || true)")],
    ),
    (
        "audit: writes are taken while the disk is full",
        "./gateway TestFullDiskOfTheAuditLog",
        [("gateway/access.go", "if err := g.cfg.Audit.Err(); err != nil {", "if err := g.cfg.Audit.Err(); err != nil && false {")],
    ),
    (
        "admission: callers who have used their burst are forgotten",
        "./gateway/admission TestCallersAreForgotten",
        [("gateway/admission/callers.go", "return c.bodies == 0 && c.lent == 0 && c.requests.TokensAt(now) >= float64(c.requests.Burst())", "return c.bodies == 0 && !now.IsZero()")],
    ),
    (
        "admission: one that holds memory is forgotten",
        "./gateway/admission TestCallersAreForgotten",
        [("gateway/admission/callers.go", "return c.bodies == 0 && c", "return c")],
    ),
]
