"""Planted bugs that judges from outside notice: raw requests, REDbot, proxies."""

PLANTS = [
    (
        "gateway lets pages of other sites read by older browsers",
        "./gateway/origin TestCrossSite",
        [("gateway/origin/origin.go", "err != nil || u.Host != r.Host {", "err != nil && u.Host != r.Host {")],
    ),
    (
        "gateway lets callers hide behind a quote who they are",
        "./gateway/origin TestCaller",
        [("gateway/origin/forwarded.go", '\tcase quoted:\n\t\treturn []string{""}\n', "")],
    ),
    (
        "gateway believes a caller's own Forwarded before the proxy's X-Forwarded-For",
        "./gateway/origin TestCaller",
        [("gateway/origin/forwarded.go", "if p.nearest(proxy, standard) != p.nearest(proxy, common) {", "if false {")],
    ),
    (
        "gateway lets shared caches keep what a token is needed for",
        "./integration TestProxiesPassOnWhoAsks",
        [("gateway/headers.go", 'return "private, " + howLong', 'return "public, " + howLong')],
    ),
    (
        "HAProxy as configured lets clients choose their address",
        "./integration TestProxiesPassOnWhoAsks",
        [("deploy/proxies/haproxy.cfg", "  http-request del-header Forwarded\n", "")],
    ),
    (
        "nginx as configured believes any gateway",
        "./integration TestProxiesPassOnWhoAsks",
        [("deploy/proxies/nginx.conf", "proxy_ssl_verify on", "proxy_ssl_verify off")],
    ),
    (
        "gateway reads a body in a coding as if it had none",
        "./integration TestRawRequests",
        [("gateway/post.go", ' || x.r.Header.Get("Content-Encoding") != ""', "")],
    ),
    (
        "gateway has caches ask again for what a URL pins",
        "./integration TestProxiesInFront",
        [("gateway/headers.go", 'return "public, " + howLong', 'return "no-cache"')],
    ),
    (
        "nginx as configured keeps no batch",
        "./integration TestProxiesInFront",
        [("deploy/proxies/nginx.conf", "~^[0-9a-f]+/$ batches;", "~^[0-9a-f]+/$ off;")],
    ),
    (
        "HAProxy as configured has room for short URLs alone",
        "./integration TestProxiesInFront",
        [("deploy/proxies/haproxy.cfg", "tune.bufsize 65536", "tune.bufsize 8192")],
    ),
    (
        "Varnish as configured answers ranges of what it may not keep",
        "./integration TestProxiesInFront",
        [("deploy/proxies/varnish.vcl", '    return (pass);', '    return (hash);')],
    ),
    (
        "HAProxy as configured sends ranks to gateways in turn",
        "./integration TestProxiesSendRanksHome/haproxy,_8_ranks",
        [("deploy/proxies/haproxy.cfg", "mul(4),div(txn.world_size)", "mod(4)")],
    ),
    (
        "nginx as configured does not take a request to another gateway",
        "./integration TestProxiesSendRanksHome/nginx,_8_ranks",
        [("deploy/proxies/nginx.conf", "proxy_next_upstream error timeout", "proxy_next_upstream off")],
    ),
    (
        "nginx as configured has one gateway fewer for ranks",
        "./integration TestProxiesSendRanksHome/nginx,_8_ranks",
        [("deploy/proxies/nginx.conf", "set $gateways 4", "set $gateways 3")],
    ),
    (
        "Envoy as configured knows no gateway but a rank's own",
        "./integration TestProxiesSendRanksHome/envoy,_8_ranks",
        [("deploy/proxies/envoy.yaml", 'fallback_list", {{gateway = home}, {gateway = "any"}}', 'fallback_list", {{gateway = home}}')],
    ),
    (
        "nginx before the store passes on a signature of another range",
        "./integration TestStoreCacheReadsOnce",
        [("deploy/proxies/nginx-store-cache.conf", 'proxy_set_header Authorization "";', "")],
    ),
    (
        "nginx before the store keeps what nobody asks for",
        "./integration TestStoreCacheReadsOnce",
        [("deploy/proxies/nginx-store-cache.conf", '""      off;\n    default shards;', '""      shards;\n    default off;')],
    ),
    (
        "nginx before the store passes on writes",
        "./integration TestStoreCacheReadsOnce",
        [("deploy/proxies/nginx-store-cache.conf", "limit_except GET { deny all; }", "")],
    ),
    (
        "gateway lets caches keep what they can never ask about again",
        "./integration TestREDbotFindsNoFault",
        [("gateway/json.go", '"no-store") //', '"no-cache") //')],
    ),
    (
        "gateway has no name for the file of a batch",
        "./integration TestREDbotFindsNoFault",
        [("gateway/headers.go", '"attachment; filename="+strconv.Quote(x.fileName(extension))', '"attachment"')],
    ),
    (
        "gateway takes a * in a list for the version that it has",
        "./integration TestConditionalAndRangeRequests",
        [("gateway/conditional/conditional.go", 'len(lines) == 1 && strings.TrimSpace(lines[0]) == "*"', 'strings.Contains(strings.Join(lines, ","), "*")')],
    ),
    (
        "gateway keeps a connection after a request with a length and chunks",
        "./integration TestRawRequests",
        [("gateway/target.go", "len(x.r.TransferEncoding) > 0 || ", "")],
    ),
    (
        "gateway keeps a connection of HTTP/1.0, whose chunks nobody has read",
        "./integration TestRawRequests",
        [("gateway/target.go", " || !x.r.ProtoAtLeast(1, 1)", "")],
    ),
    (
        "gateway takes a URL with a password for a path",
        "./integration TestRawRequests",
        [("gateway/target.go", "\t\tu.User != nil,\n", "")],
    ),
    (
        "gateway keeps a connection whose body nobody has read",
        "./integration TestRawRequests",
        [("gateway/handler.go", "if r.ContentLength > body || r.ContentLength != 0 && body == 0 {\n\t\tx.w.Header().Set(\"Connection\", \"close\")\n", "if r.ContentLength > body || r.ContentLength != 0 && body == 0 {\n")],
    ),
    (
        "HAProxy as configured sends ranks to gateways of a fleet of another size",
        "./integration TestProxiesSendRanksHome",
        [("deploy/proxies/haproxy.cfg", "url_param(rank),mul(4)", "url_param(rank),mul(3)")],
    ),
    (
        "nginx as configured sends a rank to the gateway of its number",
        "./integration TestProxiesSendRanksHome",
        [("deploy/proxies/nginx.js", "Math.floor(Number(rank) * Number(r.variables.gateways) / Number(size))", "Number(rank) % Number(r.variables.gateways)")],
    ),
    (
        "Envoy as configured has nobody stand in for a gateway that is down",
        "./integration TestProxiesSendRanksHome",
        [("deploy/proxies/envoy.yaml", '{{gateway = home}, {gateway = "any"}}', "{{gateway = home}}")],
    ),
    (
        "a job of Slurm waits on for gateways that have ended",
        "integration/slurm TestFaultsOfAJob",
        [("deploy/slurm/millrace.sbatch", 'kill -0 "$gateways" 2>/dev/null ||', "true ||")],
    ),
    (
        "a job of Slurm sees the settings of its gateways",
        "integration/slurm TestFaultsOfAJob",
        [("deploy/slurm/millrace.sbatch", 'unset "$name"', ":")],
    ),
    (
        "a job of Slurm lists one gateway for all nodes",
        "integration/slurm TestJob",
        [("deploy/slurm/millrace.sbatch", "GATEWAYS=${GATEWAYS:1}", "GATEWAYS=http://${nodes[0]}:$port")],
    ),
    (
        "an array of Slurm that repeats one part takes it for all of them",
        "integration/slurm TestIndexInParts",
        [("deploy/slurm/index.sbatch", "${PARTS:-$SLURM_ARRAY_TASK_COUNT}", "$SLURM_ARRAY_TASK_COUNT")],
    ),
    (
        "a Job of Kubernetes that indexes has one part too few",
        "integration/kubernetes TestChart/index_in_parts",
        [("deploy/kubernetes/index-parts.yaml", "completions: 16", "completions: 15")],
    ),
    (
        "a Job of Kubernetes that indexes takes a part that was killed as done",
        "integration/kubernetes TestChart/index_in_parts",
        [("deploy/kubernetes/index-parts.yaml", "backoffLimitPerIndex: 3", "backoffLimitPerIndex: 3\n  successPolicy: {rules: [{succeededCount: 15}]}")],
    ),
]
