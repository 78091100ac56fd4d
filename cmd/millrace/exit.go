package main

import (
	"context"
	"errors"
	"net"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/load"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Exit codes, part of the contract with scripts.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitCorrupt     = 3
	exitNotFound    = 4
	exitStore       = 5
	exitInterrupted = 130
)

// exitWord names an exit code in errors as JSON.
func exitWord(code int) string {
	switch code {
	case exitUsage:
		return "usage"
	case exitCorrupt:
		return "corrupt"
	case exitNotFound:
		return "not_found"
	case exitStore:
		return "unreachable"
	case exitInterrupted:
		return "interrupted"
	}
	return "failed"
}

// errCorrupt says that bytes differ from their digests, or that an epoch was not delivered exactly once.
var errCorrupt = errors.New("corruption found")

// exitCode maps an error to the exit code that scripts see.
func exitCode(ctx context.Context, err error) int {
	var usage *cli.UsageError
	var ledger *client.LedgerError
	var remote *client.Error
	var network *net.OpError
	var splits *chunkindex.SplitsError
	var kinds *chunkindex.KindsError
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case is(client.ErrNoGeneration), errors.As(err, &splits), errors.As(err, &kinds):
		return exitUsage
	case ctx.Err() != nil && is(ctx.Err()):
		return exitInterrupted
	case is(errCorrupt, chunkindex.ErrCorrupt, client.ErrCRC), errors.As(err, &ledger):
		return exitCorrupt
	case errors.As(err, &remote):
		return remoteCode(remote)
	case is(objstore.ErrNotFound):
		return exitNotFound
	case is(objstore.ErrDenied, objstore.ErrUnavailable, objstore.ErrTimeout, objstore.ErrThrottled, load.ErrUnreachable),
		errors.As(err, &network):
		return exitStore
	}
	return exitFailure
}

func remoteCode(e *client.Error) int {
	switch e.Code {
	case client.CodeInvalidArgument:
		return exitUsage
	case client.CodeStoreInconsistent:
		return exitCorrupt
	case client.CodeNotFound, client.CodeEndOfEpoch, client.CodeGenerationGone:
		return exitNotFound
	case client.CodeStoreDenied, client.CodeStoreTimeout, client.CodeStoreUnavailable:
		return exitStore
	}
	return exitFailure
}
