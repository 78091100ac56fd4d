package origin

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Caller returns the address of the caller. If a trusted proxy sent the request, this is the
// nearest address in Forwarded (RFC 7239) or X-Forwarded-For that is not a trusted proxy. If the
// two headers differ, it is the proxy's own address, since the caller may have written one of the
// headers.
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

// nearest returns the last address of a chain that does not belong to a trusted proxy.
func (p *Policy) nearest(at netip.Addr, hops []string) netip.Addr {
	for i := len(hops) - 1; i >= 0 && p.trusts(at); i-- {
		hop, err := parseHop(hops[i])
		if err != nil {
			break // the proxy does not disclose the address
		}
		at = hop
	}
	return at
}

func (p *Policy) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(p.TrustedProxies, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// forwardedFor returns the value of for= in each element of Forwarded headers, or "" for an element
// without it. An unterminated quote invalidates all elements, and the result is a single "": a
// caller may have opened it to hide the elements that the proxy appended.
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

// splitQuoted splits a header at a separator outside quoted strings. For an unterminated quote it
// returns one empty part.
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

// parseHop parses an address with an optional port; an IPv6 address may be in brackets.
func parseHop(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Addr().Unmap().WithZone(""), nil
	}
	at, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return at.Unmap().WithZone(""), err
}

// Network returns an address for rate limits: an IPv6 address is reduced to its /64 network.
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
