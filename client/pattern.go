package client

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mostGateways is how many gateways a pattern may stand for: four times as many as the largest fleet that is simulated.
const mostGateways = 4096

// braces finds what is between the braces of a pattern.
var braces = regexp.MustCompile(`^[^{}]*\{(\d{1,9})\.\.(\d{1,9})\}[^{}]*$`)

// expand returns the addresses that a pattern stands for, in order: gateways-{0..7}.gateways:8080. FIRST with zeros in front, as in
// node-{01..16}, has all numbers as wide as itself. An address without braces stands for itself, and so does a socket's path.
func expand(address string) ([]string, error) {
	if !strings.ContainsAny(address, "{}") || strings.HasPrefix(address, socketPrefix) {
		return []string{address}, nil
	}
	shown := address[strings.LastIndex(address, "@")+1:] // without a secret
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
		return nil, fmt.Errorf("gateway %q: stands for %d gateways, want at most %d", shown, last-first+1, mostGateways)
	}
	all := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		all = append(all, fmt.Sprintf("%s%0*d%s", address[:at[2]-1], len(digits), n, address[at[5]+1:]))
	}
	return all, nil
}
