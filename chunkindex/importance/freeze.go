package importance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// Defaults of FreezeRequest: the repetition factor of SHADE, for a tenth of the samples.
const (
	DefaultHotShare = .1
	DefaultRepeat   = 3
)

// FreezeRequest configures Freeze.
type FreezeRequest struct {
	Plan       string // identity of the plan for which losses were reported
	Reporter   string // principal whose reports to use; empty: anonymous
	Epoch      uint64
	Generation string   // 64 lower-case hexadecimal digits
	BatchSize  uint64   // number of samples in a global batch
	First      []uint64 // prefix sums of the chunks' sample counts; Freeze shares the slice and does not modify it

	// Base is the snapshot with which the plan drew samples. Samples without reports retain
	// their weight in it. nil: the plan had no snapshot, and samples without reports get the
	// median weight of a batch, Weight((BatchSize-1)/2).
	Base *Snapshot

	HotShare float64 // share of hot samples, in steps of one millionth; 0: DefaultHotShare
	Repeat   uint32  // factor for the weight of hot samples; 0: DefaultRepeat; 1: no repetition

	// Resolve returns the sample numbers, in stored order, at ascending positions of the epoch.
	// Freeze calls it sequentially, with many positions at a time.
	Resolve func(ctx context.Context, positions []uint64) ([]uint64, error)
}

func (q *FreezeRequest) withDefaults() {
	q.HotShare, q.Repeat = cmp.Or(q.HotShare, DefaultHotShare), cmp.Or(q.Repeat, DefaultRepeat)
}

// check validates a request. Its error lists all faults.
func (q *FreezeRequest) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := checkPlan(q.Plan); err != nil {
		faults = append(faults, err)
	}
	if !isDigest(q.Generation) {
		fault("generation %q: must be 64 hexadecimal digits", q.Generation)
	}
	if q.BatchSize == 0 || q.BatchSize > MaxBatch {
		fault("batch size %d: must be from 1 to %d", q.BatchSize, MaxBatch)
	}
	if !(q.HotShare >= 0 && q.HotShare <= 1) {
		fault("hot share %v: must be from 0 to 1", q.HotShare)
	}
	if q.Repeat > maxRepeat {
		fault("repetition %d: must be at most %d", q.Repeat, maxRepeat)
	}
	if err := checkFirst(q.First); err != nil {
		faults = append(faults, err)
	} else if q.Base != nil {
		if err := q.Base.head.fits(q.First, q.Base.size); err != nil {
			fault("base snapshot: %w", err)
		}
	}
	if q.Base != nil && q.Base.Generation() != q.Generation {
		fault("base snapshot %.12s: %w", q.Base.digest, ErrGeneration)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// Frozen is the result of Freeze.
type Frozen struct {
	Digest     string // name of the snapshot: SHA-256 of its bytes in hexadecimal
	New        bool   // false: the bucket already has the snapshot
	Samples    uint64
	HotSamples uint64
	Reports    uint64 // objects read
	Positions  uint64 // number of positions with reported losses
	Conflicts  uint64 // number of positions with several losses; the lowest loss counts
	Flushed    FlushReport
}

// Freeze combines all reports of an epoch into a snapshot of weights and stores it. The same
// reports produce the same bytes and digest, in any order and on any machine. Later reports produce
// another snapshot and do not change this one. Freeze first sends the local log. It returns
// ErrNoReports if the plan and epoch have none.
//
// It uses four bytes of memory per sample, sixteen per chunk, and up to about 64 MiB for reports,
// or more if a single batch needs more.
func (l *Log) Freeze(ctx context.Context, q FreezeRequest) (Frozen, error) {
	f, err := l.freeze(ctx, q)
	if err != nil {
		return Frozen{}, fmt.Errorf("freeze the weights of epoch %d: %w", q.Epoch, err)
	}
	return f, nil
}

func (l *Log) freeze(ctx context.Context, q FreezeRequest) (Frozen, error) {
	q.withDefaults()
	q.Plan = keptPlan(q.Plan, q.Reporter)
	if err := q.check(); err != nil {
		return Frozen{}, err
	}
	if l.cfg.Writer == nil {
		return Frozen{}, fmt.Errorf("%w: %w", ErrReadOnly, errNoWriter)
	}
	flushed, err := l.Flush(ctx)
	if err != nil {
		return Frozen{}, err
	}
	g := &gatherer{log: l, request: &q, table: weightTable(q.BatchSize), frozen: Frozen{Flushed: flushed}}
	if err := g.begin(ctx); err != nil {
		return Frozen{}, err
	}
	if err := g.run(ctx); err != nil {
		return Frozen{}, err
	}
	if g.frozen.Reports == 0 {
		return Frozen{}, ErrNoReports
	}
	h := &head{
		Order: shuffle.OrderVersion, Generation: parseDigest(q.Generation), Epoch: q.Epoch, BatchSize: q.BatchSize,
		Samples: uint64(len(g.weights)), Chunks: uint64(len(q.First) - 1),
		Positions: g.frozen.Positions, Conflicts: g.frozen.Conflicts,
		HotShare: uint32(math.Round(q.HotShare * millionth)), Repeat: q.Repeat,
	}
	if q.Base != nil {
		h.Base = parseDigest(q.Base.digest)
	}
	h.Hot = hotSamples(h.Samples, h.HotShare)
	g.frozen.Samples, g.frozen.HotSamples = h.Samples, h.Hot
	w := &snapshotWriter{head: h, plan: q.Plan, first: q.First, weights: g.weights}
	if g.frozen.Digest, g.frozen.New, err = l.put(ctx, w); err != nil {
		return g.frozen, err
	}
	return g.frozen, l.mark(ctx, l.pairKey(q.Plan, q.Epoch)+frozen)
}
