package importance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// maxOpen limits the number of epochs, per plan and reporter, with reports that were never frozen.
// A normal job has one or two such epochs.
const maxOpen = 64

// Suffixes of the empty objects that mark the state of a plan's epoch. Their keys are grouped by
// reporter and plan, so that one short listing shows the number of a job's epochs that are not
// frozen.
const (
	pairDir = roomDir + "epochs/"
	begun   = ".begun"
	frozen  = ".frozen"
)

// pairPrefix returns the key prefix of all epochs of a plan and reporter.
func (l *Log) pairPrefix(kept string) string {
	_, reporter := splitPlan(kept)
	sum := sha256.Sum256([]byte(reporter))
	return l.cfg.Prefix + pairDir + hex.EncodeToString(sum[:]) + "/" + planHash(kept) + "-"
}

// pairKey returns the key, without suffix, of an epoch of a plan.
func (l *Log) pairKey(kept string, epoch uint64) string {
	return fmt.Sprintf("%s%020d", l.pairPrefix(kept), epoch)
}

// begin marks that an epoch has reports. For a new epoch, it returns ErrTooMany if too many epochs
// of the plan are not frozen. A job that never freezes thus gets an error. Other jobs are
// unaffected, because they have other plans.
func (l *Log) begin(ctx context.Context, r *Report) error {
	key := l.pairKey(r.Plan, r.Epoch)
	if _, known := l.pairs.Load(key); known {
		return nil
	}
	open := map[string]bool{}
	own := false
	err := l.cfg.Reader.List(ctx, l.pairPrefix(r.Plan), func(o objstore.Object) error {
		if pair, ok := strings.CutSuffix(o.Key, begun); ok {
			open[pair], own = true, own || pair == key
		} else {
			delete(open, strings.TrimSuffix(o.Key, frozen)) // the listing returns this marker after the other one
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !own && len(open) >= maxOpen:
		return ErrTooMany
	case !own:
		if err := l.mark(ctx, key+begun); err != nil {
			return err
		}
	}
	l.pairs.Store(key, true)
	return nil
}

// mark stores an empty object unless it exists.
func (l *Log) mark(ctx context.Context, key string) error {
	_, err := l.cfg.Writer.Put(ctx, key, bytes.NewReader(nil), 0, objstore.Condition{IfAbsent: true})
	if errors.Is(err, objstore.ErrChanged) {
		return nil
	}
	return err
}
