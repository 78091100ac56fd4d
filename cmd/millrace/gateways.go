package main

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// gateways checks the arguments that name gateways, and writes HOST:PORT as the URL that it means.
func gateways(f *cli.Flags, args []string) {
	for i, g := range args {
		if hostPort(g) {
			g = "http://" + g
			args[i] = g
		}
		u, err := url.Parse(g)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			if !strings.Contains(g, "://") {
				g = g[strings.LastIndex(g, "@")+1:] // a password may stand before it
			}
			f.Fault("gateway %q: want http://HOST:PORT or HOST:PORT", location.HideSecrets(g))
		}
	}
}

// gatewaysOrNames is gateways, or dns:NAME:PORT for all addresses of a name.
func gatewaysOrNames(f *cli.Flags, args []string) {
	for i, g := range args {
		rest, named := strings.CutPrefix(g, "dns:")
		if !named {
			gateways(f, args[i:i+1])
			continue
		}
		if host, port, err := net.SplitHostPort(rest); err != nil || host == "" || port == "" || strings.ContainsAny(rest, "/@") {
			f.Fault("gateway %q: want dns:NAME:PORT", rest[strings.LastIndex(rest, "@")+1:])
		}
	}
}

// hostPort reports whether an argument is HOST:PORT.
func hostPort(arg string) bool {
	host, port, err := net.SplitHostPort(arg)
	_, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && notNumber == nil && host != "" && !strings.ContainsAny(host, "/@")
}

// remote reports whether an argument is a gateway's address.
func remote(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://") || hostPort(arg)
}
