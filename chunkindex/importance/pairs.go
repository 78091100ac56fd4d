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

// maxOpen is how many epochs one reporter may have of one plan with reports that were never frozen. A job has one or two.
const maxOpen = 64

// Endings of the empty objects that say what became of the epoch of a plan. They lie together by reporter and plan, so that one
// list of a few keys tells how many of a job's epochs are not frozen.
const (
	pairDir = roomDir + "epochs/"
	begun   = ".begun"
	frozen  = ".frozen"
)

// pairPrefix begins the keys of all epochs of a plan that its reporter has reports of.
func (l *Log) pairPrefix(kept string) string {
	_, reporter := splitPlan(kept)
	sum := sha256.Sum256([]byte(reporter))
	return l.cfg.Prefix + pairDir + hex.EncodeToString(sum[:]) + "/" + planHash(kept) + "-"
}

// pairKey names the epoch of a plan.
func (l *Log) pairKey(kept string, epoch uint64) string {
	return fmt.Sprintf("%s%020d", l.pairPrefix(kept), epoch)
}

// begin notes that an epoch has reports. It refuses a new one if too many of this plan are not frozen: a job that never freezes learns
// of it, and no other job is blocked, as its plan is another one.
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
			delete(open, strings.TrimSuffix(o.Key, frozen)) // it comes after the other one
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

// mark stores an empty object, if it is not there.
func (l *Log) mark(ctx context.Context, key string) error {
	_, err := l.cfg.Writer.Put(ctx, key, bytes.NewReader(nil), 0, objstore.Condition{IfAbsent: true})
	if errors.Is(err, objstore.ErrChanged) {
		return nil
	}
	return err
}
