package importance

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// What FreezeRequest's zero values mean: SHADE's repetition, of a tenth of the samples.
const (
	DefaultHotShare = .1
	DefaultRepeat   = 3
)

// FreezeRequest says what to make a snapshot of.
type FreezeRequest struct {
	Plan       string // identity of the plan that losses were reported of
	Reporter   string // whose reports are folded; empty: those of anonymous principals
	Epoch      uint64
	Generation string   // 64 hexadecimal digits in lower case
	BatchSize  uint64   // of the global batches
	First      []uint64 // prefix sums of the chunks' sample counts; shared, not changed

	// Base is the snapshot that the plan itself drew by: what was not reported keeps its weight. nil: the plan had
	// none, and such a sample weighs as much as the median of a batch, Weight((BatchSize-1)/2).
	Base *Snapshot

	HotShare float64 // share of the samples that are hot, in steps of a millionth; 0: DefaultHotShare
	Repeat   uint32  // how often the weight of a hot sample counts; 0: DefaultRepeat; 1: no sample is preferred

	// Resolve returns the numbers, in stored order, of the samples at ascending positions of the epoch. It is called for many
	// positions at a time, one call after another.
	Resolve func(ctx context.Context, positions []uint64) ([]uint64, error)
}

func (q *FreezeRequest) withDefaults() {
	if q.HotShare == 0 {
		q.HotShare = DefaultHotShare
	}
	if q.Repeat == 0 {
		q.Repeat = DefaultRepeat
	}
}

// check names every fault of a request.
func (q *FreezeRequest) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := checkPlan(q.Plan); err != nil {
		faults = append(faults, err)
	}
	if !isDigest(q.Generation) {
		fault("generation %q is not 64 hexadecimal digits", q.Generation)
	}
	if q.BatchSize == 0 || q.BatchSize > MaxBatch {
		fault("batch size %d, want 1 to %d", q.BatchSize, MaxBatch)
	}
	if !(q.HotShare >= 0 && q.HotShare <= 1) {
		fault("hot share %v, want 0 to 1", q.HotShare)
	}
	if q.Repeat > maxRepeat {
		fault("repetition %d, want at most %d", q.Repeat, maxRepeat)
	}
	if err := checkFirst(q.First); err != nil {
		faults = append(faults, err)
	} else if q.Base != nil {
		if err := q.Base.head.fits(q.First, q.Base.size); err != nil {
			fault("base snapshot: %w", err)
		}
	}
	if q.Base != nil && q.Base.head.generation != q.Generation {
		fault("base snapshot %.12s: %w", q.Base.digest, ErrGeneration)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// Frozen describes a snapshot that was made.
type Frozen struct {
	Digest     string // its name: SHA-256 of its bytes, in hexadecimal digits
	New        bool   // false: the bucket had it already
	Samples    uint64
	HotSamples uint64
	Reports    uint64 // objects read
	Positions  uint64 // that losses were reported of
	Conflicts  uint64 // of them, those with more than one loss, of which the lowest counted
	Flushed    FlushReport
}

// Freeze folds all reports of an epoch into a snapshot of weights, and stores it. The same reports make the same bytes, so the same
// digest, wherever they are folded and in whichever order they came. Reports that come later make another snapshot; this
// one stays. What the local log keeps is sent first. Without any report of that plan and epoch it is ErrNoReports.
//
// It holds four bytes a sample, sixteen a chunk, and reports in flight: some 64 MiB of them at most, unless those of one
// batch take more.
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
		order: shuffle.OrderVersion, generation: q.Generation, epoch: q.Epoch, batchSize: q.BatchSize,
		samples: uint64(len(g.weights)), chunks: uint64(len(q.First) - 1),
		positions: g.frozen.Positions, conflicts: g.frozen.Conflicts,
		hotShare: uint32(math.Round(q.HotShare * millionth)), repeat: q.Repeat,
	}
	if q.Base != nil {
		h.base = q.Base.digest
	}
	h.hot = hotSamples(h.samples, h.hotShare)
	g.frozen.Samples, g.frozen.HotSamples = h.samples, h.hot
	w := &snapshotWriter{head: h, plan: q.Plan, first: q.First, weights: g.weights}
	if g.frozen.Digest, g.frozen.New, err = l.put(ctx, w); err != nil {
		return g.frozen, err
	}
	return g.frozen, l.mark(ctx, l.pairKey(q.Plan, q.Epoch)+frozen)
}
