package main

import (
	"cmp"
	"context"
	"errors"
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

// ask calls body with a client of a gateway that responds, as reach.With.
func (a *app) ask(ctx context.Context, gateway, dataset string, body func(*client.Client) error) error {
	return reach.With(ctx, client.Config{Gateways: []string{gateway}, Dataset: dataset, Retrying: a.retrying()}, body)
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
