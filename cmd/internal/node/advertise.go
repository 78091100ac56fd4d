package node

import (
	"fmt"
	"net"
	"strings"
)

// advertised is the address at which others reach a port that listens on host: that, unless it means every address.
func advertised(host, port string) (string, error) {
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return net.JoinHostPort(host, port), nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("give the ADDRESS at which others reach this gateway: %w", err)
	}
	var four, six []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			four = append(four, n.IP.String())
		default:
			six = append(six, n.IP.String())
		}
	}
	if len(four) == 0 {
		four = six
	}
	if len(four) != 1 {
		return "", fmt.Errorf("give the ADDRESS at which others reach this gateway: this machine has %d that could be it (%s)", len(four), strings.Join(four, ", "))
	}
	return net.JoinHostPort(four[0], port), nil
}
