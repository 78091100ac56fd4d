package main

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
)

// gateways checks the arguments that name gateways, and the token that the gateways are to get.
func gateways(f *cli.Flags, args []string) {
	if _, err := client.New(client.Config{Gateways: args}); err != nil {
		f.Fault("%w", errors.Unwrap(err)) // without "new client"
		return
	}
	for _, g := range args {
		if !remote(g) && !strings.HasPrefix(g, "dns:") {
			f.Fault("gateway %q: want http://HOST:PORT or HOST:PORT", g)
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
