// Command millrace serves shuffled batches of training data from object stores.
//
// This package wires: it turns flags, environment and file into the configurations of
// the other packages, starts them, and prints. What it prints as data goes to stdout, all
// else to stderr.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to end in order; from then on a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
