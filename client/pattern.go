package client

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mostGateways is the maximum number of gateways in a pattern: four times the largest simulated
// fleet.
const mostGateways = 4096

// braces matches the numbers of a pattern.
var braces = regexp.MustCompile(`^[^{}]*\{(\d{1,9})\.\.(\d{1,9})\}[^{}]*$`)

// expand returns the addresses of a pattern, in order: gateways-{0..7}.gateways:8080. If FIRST has
// leading zeros, as in node-{01..16}, all numbers are padded to its width. Addresses without
// braces, and socket paths, are returned unchanged.
func expand(address string) ([]string, error) {
	if !strings.ContainsAny(address, "{}") || strings.HasPrefix(address, socketPrefix) {
		return []string{address}, nil
	}
	shown := address[strings.LastIndex(address, "@")+1:] // the address without user and password
	at := braces.FindStringSubmatchIndex(address)
	switch {
	case tokenForm.MatchString(address):
		return nil, errSecretInAddress
	case at == nil:
		return nil, fmt.Errorf("gateway %q: want one {FIRST..LAST} of whole numbers, as in gateways-{0..7}.gateways:8080", shown)
	}
	digits := address[at[2]:at[3]]
	first, _ := strconv.Atoi(digits)
	last, _ := strconv.Atoi(address[at[4]:at[5]])
	switch {
	case last < first:
		return nil, fmt.Errorf("gateway %q: want {FIRST..LAST} with FIRST at most LAST, as in {%d..%d}", shown, last, first)
	case last-first >= mostGateways:
		return nil, fmt.Errorf("gateway %q: the pattern expands to %d gateways: must be at most %d", shown, last-first+1, mostGateways)
	}
	all := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprintf("%s%0*d%s", address[:at[2]-1], len(digits), n, address[at[5]+1:]))
	}
	return all, nil
}
