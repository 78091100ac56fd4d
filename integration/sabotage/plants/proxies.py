"""Proxies: the published configurations keep answers correct, private and cached."""

PLANTS = [
    (
        "HAProxy accepts the address that a client claims",
        "./integration TestProxiesPassOnWhoAsks",
        [("deploy/proxies/haproxy.cfg", "  http-request del-header Forwarded\n", "")],
    ),
    (
        "nginx trusts any gateway",
        "./integration TestProxiesPassOnWhoAsks",
        [("deploy/proxies/nginx.conf", "proxy_ssl_verify on", "proxy_ssl_verify off")],
    ),
    (
        "nginx retries no request at another gateway",
        "./integration TestProxiesSendRanksHome/nginx,_8_ranks",
        [("deploy/proxies/nginx.conf", "proxy_next_upstream error timeout", "proxy_next_upstream off")],
    ),
    (
        "nginx before the store forwards a signature of another range",
        "./integration TestStoreCacheReadsOnce",
        [("deploy/proxies/nginx-store-cache.conf", 'proxy_set_header Authorization "";', "")],
    ),
    (
        "nginx sends a rank to the gateway of its number",
        "./integration TestProxiesSendRanksHome",
        [("deploy/proxies/nginx.js", "Math.floor(Number(rank) * Number(r.variables.gateways) / Number(size))", "Number(rank) % Number(r.variables.gateways)")],
    ),
    (
        "Varnish answers ranges of objects that it may not store",
        "./integration TestProxiesInFront",
        [("deploy/proxies/varnish.vcl", '    return (pass);', '    return (hash);')],
    ),
    (
        "gateway makes caches revalidate URLs that name a generation",
        "./integration TestProxiesInFront",
        [("gateway/headers.go", 'return "public, " + howLong', 'return "no-cache"')],
    ),
]
