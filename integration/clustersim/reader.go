package clustersim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// patience is the number of consecutive failures that a reader tolerates after all faults have
// ended.
const patience = 25

// reader is one rank of the job.
type reader struct {
	run  *run
	set  Rank
	rank uint64
	rnd  *rand.Rand
	near int // machine that it currently reads from
}

// read reads all epochs.
func (r *reader) read(ctx context.Context) {
	h := r.run.history
	batches := shuffle.Batching{Samples: r.run.plan.Samples(), BatchSize: h.Batch, Tail: shuffle.Short}
	for e := range h.Epochs {
		epoch := r.run.plan.Epoch(e)
		if objstore.Sleep(ctx, time.Until(r.run.began.Add(time.Duration(e)*h.Each))) != nil {
			return
		}
		get := r.getter(ctx, batches, epoch)
		for m := range batches.Batches() {
			asked := time.Now()
			if !get(m) {
				return
			}
			if r.run.step != nil && r.run.step.wait(ctx, func() { r.stepped(asked, m+1 == batches.Batches()) }) != nil {
				return
			}
			if objstore.Sleep(ctx, r.set.Think) != nil {
				return
			}
		}
	}
}

// stepped records that all ranks have a batch. asked is the time at which the last rank requested
// it. With Ahead, the step begins at the end of the previous step.
func (r *reader) stepped(asked time.Time, last bool) {
	if r.set.Ahead > 0 {
		asked = r.run.ahead
	}
	r.run.ahead = time.Now()
	r.run.stepped(time.Since(asked))
	if last {
		r.run.passed()
	}
}

// getter returns a function that reads batch m of an epoch, and returns false if the reader gave
// up. It must be called once per batch, in ascending order.
func (r *reader) getter(ctx context.Context, b shuffle.Batching, epoch *shuffle.Epoch) func(m uint64) bool {
	get := func(by *reader, m uint64) bool {
		at, samples := by.share(b, epoch, m)
		if by.rnd.IntN(16) < by.set.Moves {
			by.near = by.rnd.IntN(len(by.run.machines))
		}
		return by.persist(ctx, at, samples)
	}
	ahead := uint64(r.set.Ahead)
	if ahead == 0 {
		return func(m uint64) bool { return get(r, m) }
	}
	got := make([]chan bool, ahead) // batch m arrives on channel m modulo ahead
	for i := range ahead {
		got[i] = make(chan bool)
		by := *r
		by.rnd = rand.New(rand.NewPCG(r.run.history.Seed, 1000*(1+r.rank)+i))
		r.run.work.Go(func() {
			for m := i; m < b.Batches(); m += ahead {
				ok := get(&by, m)
				select {
				case got[i] <- ok:
				case <-ctx.Done():
					return
				}
				if !ok {
					return
				}
			}
		})
	}
	return func(m uint64) bool {
		select {
		case ok := <-got[m%ahead]:
			return ok
		case <-ctx.Done():
			return false
		}
	}
}

// share returns the cursor of the reader at a batch, and its own samples of the batch.
func (r *reader) share(b shuffle.Batching, epoch *shuffle.Epoch, m uint64) (shuffle.Cursor, []uint64) {
	h, ranks := r.run.history, uint64(len(r.run.history.Ranks))
	whole, mine := b.Share(m, 0, 1), b.Share(m, r.rank, ranks)
	at := shuffle.Cursor{
		Plan: r.run.plan, Epoch: epoch, First: whole.First, End: whole.First + whole.Count, BatchSize: h.Batch, Rank: r.rank, WorldSize: ranks,
	}
	if !h.Locality {
		return at, epoch.AppendShare(nil, mine)
	}
	at.Sharing, at.Homes = shuffle.Locality, cmp.Or(h.Homes, ranks)
	all := epoch.AppendShare(nil, whole)
	var samples []uint64
	for _, place := range epoch.DealHomes(whole, r.rank, ranks, at.Homes) {
		samples = append(samples, all[place])
	}
	return at, samples
}

// persist requests a batch until it arrives. It returns false after it has given up and reported
// this.
func (r *reader) persist(ctx context.Context, at shuffle.Cursor, samples []uint64) bool {
	start := time.Now()
	failures := 0
	address := r.run.clients.address(at, samples)
	for {
		got, err := r.once(ctx, address, at, samples)
		switch {
		case err == nil:
			r.run.trace("rank %d has its share of position %d of epoch %d after %v", r.rank, at.First, at.Epoch.Number(), time.Since(start))
			r.run.deliver(time.Since(start))
			got.Job = jobOf(at.Epoch.Number())
			r.run.clients.add(got)
			return true
		case ctx.Err() != nil:
			return false
		case errors.Is(err, budget.ErrTooLarge):
			r.run.refused(at.Epoch.Number())
			return true
		}
		if time.Since(r.run.began) > r.run.history.Heal {
			failures++
		}
		if failures > patience {
			r.run.wrong("rank %d, epoch %d, position %d: %d failed attempts, the last error: %v", r.rank, at.Epoch.Number(), at.First, failures, err)
			return false
		}
		r.near = (r.near + 1) % len(r.run.machines)
		if objstore.Sleep(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
}

// once sends one request, checks how it ends, and returns the response.
func (r *reader) once(ctx context.Context, address string, at shuffle.Cursor, samples []uint64) (got history.Event, err error) {
	limit := r.set.Limit
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	quits := r.rnd.IntN(16) < r.set.Quits
	if quits {
		defer time.AfterFunc(limit/64, cancel).Stop()
	}
	slow := time.Duration(0)
	if r.rnd.IntN(16) < r.set.Slow {
		slow = time.Duration(r.rnd.IntN(300)) * time.Millisecond
	}
	start := time.Now()
	answered := make(chan history.Event, 1)
	err = r.run.machines[r.near].ask(asked, func(ctx context.Context, p *process) error {
		defer func() {
			if took := time.Since(start); took > limit+time.Second {
				r.run.wrong("rank %d, gateway %s: a request with a limit of %v took %v", r.rank, p.boot, limit, took)
			}
		}()
		e, err := r.serve(ctx, p, address, at, samples, slow)
		answered <- e
		return err
	})
	if took := time.Since(start); took > limit+time.Second {
		r.run.wrong("rank %d: a request with a limit of %v took %v", r.rank, limit, took)
	}
	r.run.ended(kindOf(err))
	if err != nil {
		r.run.clients.add(r.run.answer(r.rank, r.near, address, start, nil, err))
		return got, err
	}
	return <-answered, nil
}

// serve does the gateway's part: it reads a batch, and sends it to a client that reads at its own
// pace.
func (r *reader) serve(ctx context.Context, p *process, address string, at shuffle.Cursor, samples []uint64, slow time.Duration) (e history.Event, err error) {
	chunks := r.run.history.Data.ranges(samples)
	numbers := make([]int, len(chunks))
	for i, c := range chunks {
		numbers[i] = c.Chunk
	}
	defer p.want(r.rank, numbers)()
	start := time.Now()
	body, err := p.source.Read(ctx, at, chunks)
	if err != nil {
		if kind := kindOf(err); kind == "unknown" || kind == "canceled" && ctx.Err() == nil {
			r.run.wrong("rank %d, gateway %s: got %v, want an error of the vocabulary", r.rank, p.boot, fmt.Errorf("%T: %w", err, err))
		}
		return e, err
	}
	defer body.Close()
	for _, t := range body.Tiers {
		r.run.ended("bytes from " + t.Tier)
	}
	cut := objstore.Sleep(ctx, slow)
	if cut == nil {
		cut = p.net.cross(ctx, route{p.machine.number, theReaders}, answerHead+sizeOf(body.Segments))
	}
	e = r.run.answer(r.rank, p.machine.number, address, start, body, nil)
	r.run.clients.log.Add(e) // whether or not the reader receives it
	return e, cut
}

// answerHead is the size of a response without its samples: a head and the end of a tar.
const answerHead = 1400

func sizeOf(segments [][]byte) (n int64) {
	for _, s := range segments {
		n += int64(len(s))
	}
	return n
}

// kindOf returns a short name for the end of a request.
func kindOf(err error) string {
	var where *chunkindex.RangeError
	switch {
	case err == nil:
		return "bytes"
	case errors.Is(err, budget.ErrTooLarge):
		return "too large"
	case errors.Is(err, budget.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, chunkindex.ErrCorrupt):
		return "corrupt"
	case errors.As(err, &where):
		return "store"
	case errors.Is(err, errDown):
		return "down"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	}
	return "unknown"
}
