"""Planted bugs of who a caller is and what the caller may do."""

PLANTS = [
    (
        "auth takes a token that has expired",
        "./gateway/auth TestTokensExpire",
        [("gateway/auth/token.go", "now.Before(t.expires)", "now.Before(t.expires.Add(time.Minute))")],
    ),
    (
        "auth takes the first of two Authorization headers",
        "./gateway/auth TestTokens",
        [("gateway/auth/token.go", "if len(values) != 1 {", "if len(values) == 0 {")],
    ),
    (
        "auth shows a header in the reason of its refusal",
        "./gateway/auth TestTokens",
        [("gateway/auth/token.go", "is not of the form: Bearer TOKEN\")", "is not of the form: Bearer TOKEN, but %q\", values[0])")],
    ),
    (
        "auth takes a token by its first 31 bytes",
        "./gateway/auth TestTokensAreComparedWhole",
        [("gateway/auth/token.go", "ConstantTimeCompare(sum[:], p.tokens[i].sum[:])", "ConstantTimeCompare(sum[:31], p.tokens[i].sum[:31])")],
    ),
    (
        "auth looks at a header of any length",
        "./gateway/auth TestTokens",
        [("gateway/auth/token.go", "if len(values[0]) > maxAuthorization {", "if len(values[0]) > 1<<30 {")],
    ),
    (
        "auth repeats a token that stands in the place of its digest",
        "./gateway/auth TestFaultsOfAFile/a_digest_that_is_the_token",
        [(
            "gateway/auth/parse.go",
            '"sha256 is the text of a token: it is a secret, draw another one and write its SHA-256 here")',
            '"sha256 is the text of a token: it is a secret, draw another one and write its SHA-256 here, not %s", text)',
        )],
    ),
    (
        "auth takes what everybody may from callers with credentials",
        "./gateway/auth TestRights",
        [("gateway/auth/policy.go", "return p.permits[anonymous].has(set, dataset)", "return false")],
    ),
    (
        "auth takes the beginning of a pattern for the pattern",
        "./gateway/auth TestRights",
        [("gateway/auth/policy.go", "return p == len(pattern)", "return true")],
    ),
    (
        "auth grants a mixture's sources with the mixture",
        "./gateway/auth TestGrantsSources",
        [("gateway/auth/policy.go", "if p.datasets[dataset]&set == set {", "if p.datasets[dataset]&set != 0 {")],
    ),
    (
        "auth grants the sources of mixtures that clients make",
        "./gateway/auth TestFaultsOfAFile/sources_of_a_pattern",
        [("gateway/auth/parse.go", 'case set&sources != 0 && strings.Contains(text, "*"):', "case false:")],
    ),
    (
        "auth makes an admin of whoever may read",
        "./gateway/auth TestRights",
        [("gateway/auth/parse.go", "permits.admin = permits.admin || admin", "permits.admin = permits.admin || admin || set != 0")],
    ),
    (
        "auth takes the last limit that means a principal",
        "./gateway/auth TestLimits",
        [("gateway/auth/policy.go", "i < first)", "i > first)")],
    ),
    (
        "auth grants to a token that no line defines",
        "./gateway/auth TestFaultsOfAFile/a_token_that_is_not_there",
        [("gateway/auth/who.go", "if !p.tokens[name] {", 'if name == "" {')],
    ),
    (
        "auth passes over a key that it does not know",
        "./gateway/auth TestFaultsOfAFile/an_unknown_key",
        [("gateway/auth/faults.go", "case !slices.Contains(known, key.Value):\n", 'case !slices.Contains(known, key.Value) && what != "a token":\n')],
    ),
    (
        "auth reads a file that every user may write",
        "./gateway/auth TestFilesThatAreNotRead",
        [("internal/watch/watch.go", "info.Mode().Perm()&0o002 != 0", "info.Mode().Perm()&0o002 > 2")],
    ),
    (
        "auth drops the rights when the file is faulty",
        "./gateway/auth TestAFaultyFileKeepsTheOldOne",
        [("gateway/auth/reload.go", "\t\tg.fileOK.Store(false)\n", "\t\tg.use(newPolicy())\n\t\tg.fileOK.Store(false)\n")],
    ),
    (
        "auth tells a fault each second",
        "./gateway/auth TestAFaultyFileKeepsTheOldOne",
        [("gateway/auth/reload.go", "\tg.seen, g.fault = c, err\n", "\tif g.fault = err; err == nil {\n\t\tg.seen = c\n\t}\n")],
    ),
    (
        "auth takes a file that is being written",
        "./gateway/auth TestAFileThatIsBeingWrittenIsWaitedFor",
        [("internal/watch/watch.go", "return is, f.Read().Same(is)", "return is, f.Read().Err == nil")],
    ),
    (
        "auth never looks at the file again",
        "./gateway/auth TestAChangedFileComesIntoUse",
        [("gateway/auth/reload.go", "\t\t\tg.look(ctx)\n", "")],
    ),
    (
        "auth forgets the keys of issuers when the file changes",
        "./gateway/auth TestAReloadKeepsTheKeysOfAnIssuer",
        [("gateway/auth/reload.go", "if is.keys = g.rings[is.url]; is.keys == nil {", "if is.keys = nil; is.keys == nil {")],
    ),
    (
        "auth believes claims that nobody has signed",
        "./gateway/auth TestJWTsThatAreRefused/an_altered_payload",
        [("gateway/auth/jwt.go", "err := signed.Claims(key, &standard, &all); err != nil", "err := signed.UnsafeClaimsWithoutVerification(&standard, &all); err != nil || key == nil")],
    ),
    (
        "auth believes the key that a JWT brings along",
        "./gateway/auth TestJWTsThatAreRefused/an_embedded_key",
        [("gateway/auth/jwt.go", "\tif set == nil || now", "\tif header.JSONWebKey != nil {\n\t\treturn header.JSONWebKey.Key, nil\n\t}\n\tif set == nil || now")],
    ),
    (
        "auth takes a JWT for another audience",
        "./gateway/auth TestJWTsThatAreRefused/another_aud",
        [("gateway/auth/jwt.go", "Issuer: is.url, AnyAudience: jwt.Audience{is.audience}, Time: now", "Issuer: is.url, Time: now")],
    ),
    (
        "auth takes a JWT that never ends",
        "./gateway/auth TestJWTsThatAreRefused/no_exp",
        [("gateway/auth/jwt.go", "if standard.Expiry == nil {", "if standard.Expiry == nil && is.name == \"\" {")],
    ),
    (
        "auth takes a JWT an hour after its end",
        "./gateway/auth TestExpiryOfAJWTFollowsTheClock",
        [("gateway/auth/jwt.go", "const leeway = time.Minute", "const leeway = time.Hour")],
    ),
    (
        "auth takes PS256 beside RS256",
        "./gateway/auth TestJWTsThatAreRefused/PS256",
        [("gateway/auth/jwt.go", "jose.RS256, jose.ES256, jose.EdDSA}", "jose.RS256, jose.ES256, jose.EdDSA, jose.PS256}")],
    ),
    (
        "auth lets a subject break the lines of a log",
        "./gateway/auth TestJWTsThatAreRefused/a_sub_with_a_line_end",
        [("gateway/auth/who.go", " && !strings.ContainsFunc(name, unicode.IsControl)", ' && !strings.ContainsFunc("", unicode.IsControl)')],
    ),
    (
        "auth takes RSA keys of 1024 bits",
        "./gateway/auth TestAnswersOfAnIssuerThatAreRefused/keys_that_are_too_short",
        [("gateway/auth/keys.go", "bits >= minRSA &&", "bits >= 512 &&")],
    ),
    (
        "auth takes a key for encryption",
        "./gateway/auth TestJWTsThatAreRefused/a_key_for_encryption",
        [("gateway/auth/keys.go", ' || key.Use != "" && key.Use != "sig"', "")],
    ),
    (
        "auth uses keys of an issuer for ever",
        "./gateway/auth TestAnIssuerThatIsDown",
        [("gateway/auth/jwt.go", "set == nil || now.Sub(set.fetched) >= keysLast", "set == nil")],
    ),
    (
        "auth asks an issuer for each kid that somebody makes up",
        "./gateway/auth TestRotatedKeys",
        [("gateway/auth/keys.go", "wait = fetchSoon\n", "wait = 0\n")],
    ),
    (
        "auth asks an issuer for a kid that it knows",
        "./gateway/auth TestAKnownKidAsksForNothing",
        [("gateway/auth/jwt.go", "\t\tknown = true\n", "\t\tknown = key.Algorithm == header.Algorithm\n")],
    ),
    (
        "auth believes the configuration of another issuer",
        "./gateway/auth TestAnswersOfAnIssuerThatAreRefused/another_issuer",
        [("gateway/auth/keys.go", "if about.Issuer != is.url {", 'if about.Issuer == "" {')],
    ),
    (
        "auth follows an issuer to another host",
        "./gateway/auth TestAnswersOfAnIssuerThatAreRefused/a_redirect_elsewhere",
        [("gateway/auth/keys.go", " || req.URL.Host != via[0].URL.Host", "")],
    ),
    (
        "auth reads any number of bytes from an issuer",
        "./gateway/auth TestAnswersOfAnIssuerThatAreRefused/1_MiB_and_a_byte",
        [("gateway/auth/keys.go", "case len(text) > maxAnswer:", "case len(text) > 2*maxAnswer:")],
    ),
    (
        "auth lets an issuer that says nothing hold up the file",
        "./gateway/auth TestAnIssuerThatSaysNothing",
        [("gateway/auth/reload.go", "\t\tg.fetchDue(ctx, &fetching)\n", "\t\tg.fetchDue(ctx, &fetching)\n\t\tfetching.Wait()\n")],
    ),
    (
        "auth looks at the certificate when the token is bad",
        "./gateway/auth TestAuthorizationGoesBeforeACertificate",
        [("gateway/auth/guard.go", "case len(shown.Authorization) > 0:", "case len(shown.Authorization) > 0 && len(shown.Certificates) == 0:")],
    ),
    (
        "auth takes a certificate's DNS name for an e-mail address",
        "./gateway/auth TestCertificates/a_DNS_name_like_an_address",
        [("gateway/auth/certificate.go", "validSubject(name) && kindOf(name) == is", "validSubject(name) && kindOf(name) >= is")],
    ),
    (
        "auth knows a certificate by its first name alone",
        "./gateway/auth TestCertificates/all_names_count",
        [("gateway/auth/certificate.go", "\treturn who, nil\n", "\twho.who = []string{who.Name}\n\treturn who, nil\n")],
    ),
    (
        "auth lets a long answer outlive its token",
        "./gateway/auth TestRightsEndWithTheToken",
        [("gateway/auth/policy.go", "return ok && p.tokens[i].principal.Name == who.Name && p.tokens[i].stands(now())", "return ok || i == 0")],
    ),
    (
        "auth lets a long answer outlive its JWT",
        "./gateway/auth TestExpiryOfAJWTFollowsTheClock",
        [("gateway/auth/jwt.go", "\t\twho.until = standard.Expiry.Time().Add(leeway)\n", "")],
    ),
    (
        "auth knows a client by a certificate that has expired",
        "./gateway/auth TestACertificateThatExpires",
        [("gateway/auth/certificate.go", "if now.After(cert.NotAfter) {", "if cert.NotAfter.IsZero() {")],
    ),
    (
        "auth remembers a JWT by its claims alone",
        "./gateway/auth TestAJWTIsRememberedToTheByte",
        [("gateway/auth/jwt.go", "sha256.Sum256([]byte(text))", 'sha256.Sum256([]byte(text[:strings.LastIndex(text, ".")]))')],
    ),
    (
        "auth remembers a JWT beyond its key",
        "./gateway/auth TestRotatedKeys",
        [("gateway/auth/jwt.go", "ok && known.ring.set.Load() == known.keys && ", "ok && ")],
    ),
    (
        "auth remembers a JWT beyond its end",
        "./gateway/auth TestExpiryOfAJWTFollowsTheClock",
        [("gateway/auth/jwt.go", " && now.Before(known.who.until)", "")],
    ),
    (
        "auth remembers a JWT of an issuer that is silent for a day",
        "./gateway/auth TestAnIssuerThatIsDown",
        [("gateway/auth/jwt.go", " && now.Sub(known.keys.fetched) < keysLast && now", " && now")],
    ),
    (
        "auth remembers any number of JWTs",
        "./gateway/auth TestRememberedJWTsAreBounded",
        [("gateway/auth/jwt.go", "if len(p.proofs.of) >= maxProofs {", "if false {")],
    ),
]
