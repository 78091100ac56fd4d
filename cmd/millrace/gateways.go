package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/load"
	"github.com/millrace-data/millrace/internal/location"
)

// gateways checks the arguments that name gateways, and the token that the gateways are to get.
func gateways(f *cli.Flags, args []string) { gatewaysOf(f, client.Config{Gateways: args}) }

// gatewaysOf does the same for a client with other settings too.
func gatewaysOf(f *cli.Flags, cfg client.Config) {
	if _, err := client.New(cfg); err != nil {
		f.Fault("%w", errors.Unwrap(err)) // without "new client"
		return
	}
	for _, g := range cfg.Gateways {
		if !location.IsGateway(g) {
			f.Fault("gateway %q: want http://HOST:PORT or HOST:PORT, or unix:PATH", g)
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
