"""Rights: callers read only what their rights allow, and learn nothing about the rest."""

PLANTS = [
    (
        "auth grants a mixture's sources with any right on the mixture",
        "./gateway/auth TestGrantsSources",
        [("gateway/auth/policy.go", "if p.datasets[dataset]&set == set {", "if p.datasets[dataset]&set != 0 {")],
    ),
    (
        "auth accepts claims without a valid signature",
        "./gateway/auth TestJWTsThatAreRefused/an_altered_payload",
        [("gateway/auth/jwt.go", "err := signed.Claims(key, &standard, &all); err != nil", "err := signed.UnsafeClaimsWithoutVerification(&standard, &all); err != nil || key == nil")],
    ),
    (
        "auth accepts the key embedded in a JWT",
        "./gateway/auth TestJWTsThatAreRefused/an_embedded_key",
        [("gateway/auth/jwt.go", "\tif set == nil || now", "\tif header.JSONWebKey != nil {\n\t\treturn header.JSONWebKey.Key, nil\n\t}\n\tif set == nil || now")],
    ),
    (
        "auth lets a long answer outlive its token",
        "./gateway/auth TestRightsEndWithTheToken",
        [("gateway/auth/policy.go", "return ok && p.tokens[i].principal.Name == who.Name && p.tokens[i].stands(now())", "return ok || i == 0")],
    ),
    (
        "auth caches a JWT without its signature",
        "./gateway/auth TestAJWTIsRememberedToTheByte",
        [("gateway/auth/jwt.go", "sha256.Sum256([]byte(text))", 'sha256.Sum256([]byte(text[:strings.LastIndex(text, ".")]))')],
    ),
    (
        "gateway authorizes the short path as no dataset",
        "./gateway TestMatrix",
        [("gateway/access.go", 'if !ofDataset && x.route.right == auth.Read || g.may', 'if strings.HasPrefix(x.route.pattern, "/epoch/") || !ofDataset && x.route.right == auth.Read || g.may')],
    ),
    (
        "gateway serves a mixture without rights on its sources",
        "./gateway TestMatrix",
        [("gateway/access.go", "!ok || d.parts == nil || g.access", "ok || d.parts == nil || g.access")],
    ),
    (
        "gateway reveals that a forbidden dataset exists",
        "./gateway TestMatrix",
        [("gateway/access.go", "readable := ofDataset && g.isServed(name) && g.may(p, auth.Read, name)", "readable := ofDataset && g.isServed(name)")],
    ),
    (
        "gateway completes a long answer after its rights were revoked",
        "./gateway TestRevokedDuringALongAnswer",
        [("gateway/access.go", "		return fmt.Errorf(\"%w: %w\", errRevoked, err)\n", "		return nil\n")],
    ),
    (
        "gateway logs tokens in addresses",
        "./gateway TestSecretsInTheWrongPlace",
        [("gateway/accesslog.go", 'e.Str("error", auth.Conceal(cause.Error()))', 'e.Str("error", cause.Error())')],
    ),
    (
        "Go client sends its token to the target of a redirect",
        "./client TestTokenFollowsNoRedirect",
        [("client/client.go", "cfg.HTTP.CheckRedirect == nil || token != nil {", "cfg.HTTP.CheckRedirect == nil {")],
    ),
    (
        "Python client sends its token to a gateway of another name",
        "client/python/tests/test_tokens.py test_gateways_must_prove_their_names",
        [("client/python/millrace/_http/settings.py", "            if tls.client_cert is not None:\n",
          "            context.check_hostname = False\n            if tls.client_cert is not None:\n")],
    ),
    (
        "Python client shows its token in tracebacks",
        "client/python/tests/test_tokens.py test_nothing_shows_a_token",
        [("client/python/millrace/_http/wire.py", "head = Secret(", "head = str(")],
    ),
    (
        "gateway accepts any certificate of the CA as a cluster member",
        "./integration TestStrangersAreRefused",
        [("cmd/internal/node/peers.go", ", c.PeerAllow)\n", ", nil)\n")],
    ),
    (
        "gateway lets shared caches store answers that require a token",
        "./integration TestProxiesPassOnWhoAsks",
        [("gateway/headers.go", 'return "private, " + howLong', 'return "public, " + howLong')],
    ),
    (
        "gateway mistakes users of other containers for its own",
        "./integration TestUsersOfOneMachine",
        [("internal/socket/peer_linux.go", "uid, ok = who.Uid, who.Pid > 0 && isNeighbour(process, strconv.Itoa(int(who.Pid)))", "uid, ok = who.Uid, who.Pid > 0 && !isNeighbour(process, strconv.Itoa(int(who.Pid)))")],
    ),
    (
        "gateway serves other users of the machine without an access file",
        "./integration TestPortsThatOthersReach",
        [("cmd/millrace/serve_access.go", "if !open && !node.Private(c.SocketMode) {", "if !open && c.SocketMode > 0o777 {")],
    ),
    (
        "page renders markup of a dataset",
        "./integration/browser TestHostileData/labels",
        [('gateway/dashboard/page/dom.js', 'document.createTextNode(String(c))', 'document.createRange().createContextualFragment(String(c))'), ('gateway/dashboard/dashboard.go', '"connect-src \'self\'; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'; " +\n\t"require-trusted-types-for \'script\'; trusted-types \'none\'"', '"connect-src \'self\'; base-uri \'none\'; form-action \'none\'; frame-ancestors \'none\'"')],
    ),
]
