package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/load"
	"github.com/millrace-data/millrace/internal/location"
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

// reached returns a client of a gateway that answers. A person who asks is told soon of one that does not.
func reached(ctx context.Context, gateway, dataset string) (*client.Client, error) {
	if err := load.Reach(ctx, gateway, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", location.HideSecrets(gateway), err)
	}
	return client.New(client.Config{Gateways: []string{gateway}, Dataset: dataset})
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
