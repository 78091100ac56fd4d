package importance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// FlushReport is the result of sending the reports in a local log.
type FlushReport struct {
	Sent      int   // sent now, or already stored in the bucket
	Conflicts int   // dropped because the bucket already has other losses
	Lost      int64 // bytes of damaged records on the disk
}

// Limits for sending the local log: bytes in memory and concurrent batches.
const (
	flushBytes = 1 << 20
	writers    = 16
)

// Flush sends the reports in the local log, and clears the log once the bucket has responded for
// every report. After an error the log retains all reports, and the next attempt resumes after the
// last acknowledged report. A restart loses that position and sends all reports again, which is
// harmless because the bucket accepts reports that it already has.
func (l *Log) Flush(ctx context.Context) (FlushReport, error) {
	var done FlushReport
	if l.kept == nil {
		return done, nil
	}
	if err := l.kept.lock(ctx); err != nil {
		return done, err
	}
	defer l.kept.unlock()
	if l.kept.size == keptHeader {
		return done, nil
	}
	if err := l.flush(ctx, l.kept, &done); err != nil {
		return done, fmt.Errorf("flush the local log: %w", err)
	}
	return done, nil
}

func (l *Log) flush(ctx context.Context, j *journal, done *FlushReport) error {
	var some []*Report // reports between j.sent and end
	send := func(end int64) error {
		err := l.sendAll(ctx, some, done)
		if err == nil {
			some, j.sent = some[:0], end
		}
		return err
	}
	lost, err := j.each(j.sent, j.size, func(r *Report, _ [sha256.Size]byte, end int64) error {
		if some = append(some, r); end-j.sent < flushBytes {
			return nil
		}
		return send(end)
	})
	done.Lost = lost
	if err != nil {
		return err
	}
	if err := send(j.size); err != nil {
		return err
	}
	return j.clear()
}

// sendAll sends reports concurrently by batch. It sends the reports of one batch sequentially, so
// that the first stored loss of a position counts.
func (l *Log) sendAll(ctx context.Context, reports []*Report, done *FlushReport) error {
	byBatch := map[string][]*Report{}
	for _, r := range reports {
		key := l.batchPrefix(r)
		byBatch[key] = append(byBatch[key], r)
	}
	batches := slices.Collect(maps.Values(byBatch))
	var mu sync.Mutex // guards done
	return parallel.Each(ctx, writers, len(batches), func(ctx context.Context, _, i int) error {
		for _, r := range batches[i] {
			_, err := l.store(ctx, r)
			refused := errors.Is(err, ErrConflict) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooMany)
			switch {
			case errors.Is(err, objstore.ErrDenied) || errors.Is(err, errNoWriter):
				return &ReadOnlyError{Kept: true, Err: err}
			case err != nil && !refused:
				return err
			}
			mu.Lock()
			if refused {
				done.Conflicts++
			} else {
				done.Sent++
			}
			mu.Unlock()
		}
		return nil
	})
}
