package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/audit"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/reach"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Exit codes, on which scripts may rely.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitCorrupt     = 3
	exitNotFound    = 4
	exitStore       = 5
	exitInterrupted = 130
)

// errCorrupt reports that bytes differ from their digests, or that an epoch was not delivered
// exactly once.
var errCorrupt = errors.New("corruption found")

// Codes of failures that gateways do not have. The other codes are those of package client.
const (
	codeFailed      = "failed"
	codeCorrupt     = "corrupt"
	codeNoGateway   = "gateway_unavailable"
	codeInterrupted = "interrupted"
)

// exits returns the exit code for each code of a failure. Other codes exit with 1.
func exits() map[string]int {
	return map[string]int{
		client.CodeInvalidArgument:   exitUsage,
		codeCorrupt:                  exitCorrupt,
		client.CodeStoreInconsistent: exitCorrupt,
		client.CodeNotFound:          exitNotFound,
		client.CodeEndOfEpoch:        exitNotFound,
		client.CodeGenerationGone:    exitNotFound,
		client.CodeReadOnly:          exitStore,
		client.CodeStoreDenied:       exitStore,
		client.CodeStoreUnavailable:  exitStore,
		client.CodeStoreTimeout:      exitStore,
		codeNoGateway:                exitStore,
		codeInterrupted:              exitInterrupted,
	}
}

// isA reports whether an error has a type.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// codeOf returns the code of an error.
func codeOf(ctx context.Context, err error) string {
	var remote *client.Error
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case isA[*cli.UsageError](err), is(client.ErrNoGeneration, gateway.ErrConfiguration), isA[*build.SplitsError](err), isA[*build.KindsError](err):
		return client.CodeInvalidArgument
	case ctx.Err() != nil && is(ctx.Err()):
		return codeInterrupted
	case is(errCorrupt, chunkindex.ErrCorrupt, selection.ErrCorrupt, client.ErrCRC), isA[*client.DeliveryError](err), isA[*audit.Error](err):
		return codeCorrupt
	case errors.As(err, &remote):
		return cmp.Or(remote.Code, codeFailed)
	case is(build.ErrReadOnly, build.ErrClassFolders):
		return client.CodeReadOnly
	case is(objstore.ErrNotFound, inventory.ErrNoSample):
		return client.CodeNotFound
	case is(objstore.ErrDenied):
		return client.CodeStoreDenied
	case is(objstore.ErrUnavailable, objstore.ErrTimeout, objstore.ErrThrottled):
		return client.CodeStoreUnavailable
	case is(reach.ErrNoAnswer, client.ErrDeadline, http.ErrSchemeMismatch), isA[*net.OpError](err):
		return codeNoGateway
	case is(fs.ErrNotExist): // for example the file of --keys
		return client.CodeNotFound
	case isA[*cli.Refusal](err) && !isA[*build.PartsError](err):
		return client.CodeInvalidArgument
	}
	return codeFailed
}

// failureOf returns the cause of a failed command, and advice if the error has any.
func failureOf(ctx context.Context, err error) cli.Failure {
	code := codeOf(ctx, err)
	f := cli.Failure{Code: code, Exit: cmp.Or(exits()[code], exitFailure), Advice: cli.Advice{Message: err.Error()}}
	if code == codeInterrupted {
		f.Message = "interrupted"
		return f
	}
	if refusal, ok := errors.AsType[*cli.Refusal](err); ok {
		f.Advice = refusal.Advice
	}
	if errors.Is(err, reach.ErrNoAnswer) {
		f.Cure = reach.Cure(err)
	}
	if cured, ok := errors.AsType[*location.CureError](err); ok {
		f.Message, f.Cure = strings.TrimSuffix(f.Message, ": "+cured.Cure), cured.Cure
	}
	if none, ok := errors.AsType[*chunkindex.NoIndexError](err); ok {
		for _, name := range none.Has {
			if name != "" { // "" is the name of the default index
				f.Indexes = append(f.Indexes, "#"+name)
			}
		}
	}
	return f
}
