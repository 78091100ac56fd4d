// Command millrace serves shuffled batches of training data from object stores.
//
// This package converts flags, environment and file into the configurations of the other packages,
// starts them, and prints. Data are printed on stdout, everything else on stderr.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace-data/millrace/cmd/internal/node"
)

func main() {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cause := context.Canceled
		if <-signals == os.Interrupt {
			cause = node.ErrInterrupted
		}
		// The first signal requests an orderly shutdown. From now on a second one kills the
		// process at once.
		signal.Stop(signals)
		end(cause)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
