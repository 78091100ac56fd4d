package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/reach"
	"github.com/millrace-data/millrace/internal/words"
)

// gateways checks the arguments that name gateways, and the token for the gateways.
func gateways(f *cli.Flags, args []string) { gatewaysOf(f, client.Config{Gateways: args}) }

// served checks gateways given as GATEWAY or GATEWAY/NAME. It removes the dataset's name from args,
// and stores the name in dataset.
func served(f *cli.Flags, args []string, dataset *string) {
	given := *dataset
	for i, arg := range args {
		gateway, name, ok := location.Served(arg, given)
		switch {
		case !ok:
			continue // gateways reports the fault
		case name != "" && *dataset != "" && name != *dataset:
			f.Fault("%s: its dataset is %s, but another address names %s: all gateways must serve one dataset", location.HideSecrets(arg), words.Printable(name), words.Printable(*dataset))
		}
		args[i], *dataset = gateway, cmp.Or(name, *dataset)
	}
}

// gatewaysOf does the same as gateways, for a client with further settings.
func gatewaysOf(f *cli.Flags, cfg client.Config) {
	if _, err := client.New(cfg); err != nil {
		f.Fault("%w", errors.Unwrap(err)) // without the prefix "new client"
		return
	}
	for _, g := range cfg.Gateways {
		if !location.IsGateway(g) {
			f.Fault("gateway %q: must be http://HOST:PORT or HOST:PORT, or unix:PATH", g)
		}
	}
}

// reached returns a client of a gateway that responds. It fails at once if the connection is
// refused, and after reach.Time if there is no response.
func (a *app) reached(ctx context.Context, gateway, dataset string) (*client.Client, error) {
	cfg := client.Config{Gateways: []string{gateway}, Dataset: dataset, Retrying: a.retrying()}
	if err := reach.Check(ctx, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", location.HideSecrets(gateway), err)
	}
	return client.New(cfg)
}

// retrying returns a function that prints why a client waits, at most once in 5 s.
func (a *app) retrying() func(error) {
	var next atomic.Int64
	return func(err error) {
		now := time.Now()
		if due := next.Load(); now.UnixNano() >= due && next.CompareAndSwap(due, now.Add(5*time.Second).UnixNano()) {
			a.Say("millrace: retrying: %v", err)
		}
	}
}
