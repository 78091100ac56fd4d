package origin

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Caller returns the address of the caller. Where a trusted proxy has sent the request it is the one that the proxy
// names, in Forwarded (RFC 7239) or X-Forwarded-For: of a chain of proxies, the nearest address that is no trusted proxy's.
// Where the two name different addresses it is the proxy's own: the caller has written one of them.
func (p *Policy) Caller(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	proxy := at.Addr().Unmap()
	standard := forwardedFor(r.Header.Values("Forwarded"))
	common := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	switch {
	case len(standard) == 0:
		return p.nearest(proxy, common).String()
	case len(common) > 1 || common[0] != "":
		if p.nearest(proxy, standard) != p.nearest(proxy, common) {
			return proxy.String()
		}
	}
	return p.nearest(proxy, standard).String()
}

// nearest returns the last address of a chain that is no trusted proxy's.
func (p *Policy) nearest(at netip.Addr, hops []string) netip.Addr {
	for i := len(hops) - 1; i >= 0 && p.trusts(at); i-- {
		hop, err := parseHop(hops[i])
		if err != nil {
			break // the proxy hides who that is
		}
		at = hop
	}
	return at
}

func (p *Policy) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(p.TrustedProxies, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// forwardedFor returns the value of for= of each element of Forwarded headers; "" where it has none. Where a quote is left open
// the elements are not known, and one "" stands for all: a caller may have opened it to hide what the proxy wrote behind it.
func forwardedFor(headers []string) []string {
	var hops []string
	for _, element := range splitQuoted(strings.Join(headers, ","), ',') {
		hop := ""
		for _, pair := range splitQuoted(element, ';') {
			if name, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.TrimSpace(name), "for") {
				hop = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
		hops = append(hops, hop)
	}
	return hops
}

// splitQuoted splits a header at a separator outside of quoted strings. It returns one part without content where a quote is
// left open.
func splitQuoted(s string, separator byte) []string {
	var parts []string
	quoted, begin := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	switch {
	case quoted:
		return []string{""}
	case begin == 0 && strings.TrimSpace(s) == "":
		return nil
	}
	return append(parts, s[begin:])
}

// parseHop reads an address with or without a port; an IPv6 address may stand in brackets.
func parseHop(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), nil
	}
	at, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return at.Unmap().WithZone(""), err
}

// Network is an address as a limit counts it: an IPv6 caller has a whole network to itself.
func Network(address string) string {
	at, err := netip.ParseAddr(address)
	if err != nil || at.Unmap().Is4() {
		return address
	}
	p, err := at.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
