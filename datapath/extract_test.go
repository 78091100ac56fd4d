package datapath

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// held returns a source whose store reads wait until release is called. Reads for which fails
// returns an error then fail.
func (d *dataset) held(t *testing.T, fails func(offset int64) error) (s *Source, store *gradual, release func()) {
	open := make(chan struct{})
	store = &gradual{RangeReader: d.store, next: func(ctx context.Context, offset int64) error {
		select {
		case <-open:
			return fails(offset)
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
	return p.Open(d.index, store, "set/"), store, func() { close(open) }
}

// extractOf returns an extract that other batches do not find. It also returns the request for the
// extract, with ranges numbered by its samples.
func extractOf(s *Source, b *request, memory room) (*extract, request) {
	e := &extract{all: &s.path.extracts, source: s, room: memory, pins: 1}
	chunks := make([]batch.ChunkRanges, len(b.chunks))
	for i, c := range b.chunks {
		chunks[i] = batch.ChunkRanges{Chunk: c.Chunk, Ranges: slices.Clone(c.Ranges)}
		for n, r := range c.Ranges {
			chunks[i].Ranges[n].Seq = len(e.samples)
			e.add(samplePlace{s, c.Chunk, r.Offset, r.Length, false}, false)
		}
	}
	return e, *b.of(chunks)
}

func sound(int64) error { return nil }

// offsetOf returns the offset of a sample in its shard.
func (d *dataset) offsetOf(t *testing.T, sample uint64) int64 {
	c := d.ranges(t, []uint64{sample})[0]
	return d.index.Extents(c.Chunk)[0].Offset + int64(c.Ranges[0].Offset)
}

func TestExtracts_ReadASampleOnceHoweverManyAsk(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		s, store, release := d.held(t, sound)
		var all []<-chan result
		for _, samples := range [][]uint64{{5}, {5}, {5, 20}, {20, 5, 5}, {30, 20}} {
			all = append(all, d.reading(t.Context(), t, s, samples))
			synctest.Wait()
		}
		release()
		for _, ended := range all {
			got := <-ended
			must(t, got.err)
			got.body.Close()
		}
		slices.Sort(store.reads)
		if want := []int64{d.offsetOf(t, 5), d.offsetOf(t, 20), d.offsetOf(t, 30)}; !slices.Equal(store.reads, want) {
			t.Errorf("got store reads at %d, want %d: one for each sample", store.reads, want)
		}
	})
}

func TestExtracts_EndWhenTheLastBatchLeaves(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	for _, stays := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			s, store, release := d.held(t, sound)
			begins, leaveFirst := context.WithCancel(t.Context())
			joins, leaveLast := context.WithCancel(t.Context())
			defer leaveLast()
			first := d.reading(begins, t, s, []uint64{5, 20})
			synctest.Wait()
			last := d.reading(joins, t, s, []uint64{20})
			synctest.Wait()
			leaveFirst()
			if err := (<-first).err; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			if s.path.Stats().BudgetInUse == 0 {
				t.Error("the memory that the read fills has been given back")
			}
			if stays {
				release()
				got := <-last
				must(t, got.err)
				got.body.Close()
			} else {
				leaveLast()
				if err := (<-last).err; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
				release()
				got := <-d.reading(t.Context(), t, s, []uint64{20}) // a new request does not join a canceled load
				must(t, got.err)
				got.body.Close()
			}
			want := 2
			if !stays {
				want = 3
			}
			if n := store.counted(); n != want {
				t.Errorf("the other batch stays: %v; got %d store reads, want %d", stays, n, want)
			}
		})
	}
}

// Samples 5 and 6 are adjacent, so one store read loads both.
func TestExtracts_ErrorReachesItsBatchOnly(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		bad, length := d.offsetOf(t, 5), int64(d.ranges(t, []uint64{5})[0].Ranges[0].Length)
		s, store, release := d.held(t, func(offset int64) error {
			if offset == bad {
				return objstore.ErrUnavailable
			}
			return nil
		})
		both := d.reading(t.Context(), t, s, []uint64{5, 6})
		synctest.Wait()
		good, also := d.reading(t.Context(), t, s, []uint64{6}), d.reading(t.Context(), t, s, []uint64{5})
		synctest.Wait()
		release()
		got := <-good
		if got.err != nil {
			t.Errorf("a batch of the sample that can be read got %v", got.err)
		} else {
			got.body.Close()
		}
		for _, c := range []struct {
			ended  <-chan result
			length int64
		}{{both, 2 * length}, {also, length}} {
			var where *chunkindex.RangeError
			if err := (<-c.ended).err; !errors.As(err, &where) || where.Offset != bad || where.Length != c.length {
				t.Errorf("got %v, want the error of its own read of %d bytes at %d", err, c.length, bad)
			}
		}
		if n := store.counted(); n != 3 {
			t.Errorf("got %d store reads, want one of both samples, and one of each", n)
		}
	})
}

// Batches of few samples begin and end at random, with a store that fails, sends wrong bytes and is
// slow. Each gets the stored bytes, its own cancellation or an error of the store.
func TestExtracts_Storm(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	from, to, few := seeds.Range(t, 200, 20_000)
	ended := map[string]int{}
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) { d.sampleStorm(t, seed, ended) })
		if t.Failed() {
			t.Fatalf("storm %d", seed)
		}
	}
	for _, kind := range []string{"bytes", "canceled", "deadline", "store"} {
		if !few && ended[kind] == 0 {
			t.Errorf("got none of %q: %v", kind, ended)
		}
	}
	t.Logf("reads ended so: %v", ended)
}

func (d *dataset) sampleStorm(t *testing.T, seed uint64, ended map[string]int) {
	rnd := rand.New(rand.NewPCG(seed, 31))
	d.store.SetFault(script(rnd.Uint64(), rnd.IntN(3)))
	defer d.store.SetFault(nil)
	store := &gradual{RangeReader: d.store, next: func(context.Context, int64) error { return nil }}
	p := newPath(t, Config{NoPrefetch: true, Budget: bud(4 << 20), Fetchers: 1 + rnd.IntN(4)})
	s := p.Open(d.index, store, "set/")
	var mu sync.Mutex // guards ended
	var readers sync.WaitGroup
	for range 2 + rnd.IntN(6) {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 32))
		readers.Go(func() {
			for range 1 + own.IntN(4) {
				time.Sleep(time.Duration(own.IntN(20)) * time.Millisecond) // fake time, as below
				kind := d.sampleReader(t, s, own)
				mu.Lock()
				ended[kind]++
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	if n := p.extracted(); n != 0 {
		t.Errorf("%d samples are still there", n)
	}
}

// sampleReader reads one batch of neighbouring samples and reports the result.
func (d *dataset) sampleReader(t *testing.T, s *Source, rnd *rand.Rand) string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(4000))*time.Millisecond)
	defer cancel()
	if rnd.IntN(3) == 0 {
		defer time.AfterFunc(time.Duration(rnd.IntN(30))*time.Millisecond, cancel).Stop()
	}
	samples := make([]uint64, 1+rnd.IntN(4))
	for i := range samples {
		samples[i] = 10 + rnd.Uint64N(6)
	}
	chunks := d.ranges(t, samples)
	body, err := s.Read(ctx, shuffle.Cursor{}, chunks)
	if err != nil {
		return readEnd(ctx, t, err)
	}
	defer body.Close()
	time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond) // simulate a slow client
	if err := d.check(chunks, body); err != nil {
		t.Error(err)
	}
	return "bytes"
}

// TestExtracts_FirstStaysFound: a batch loads its own copy of a sample that another extract already
// has, as a hedge does. Later batches still find the first copy, also after the second one is
// released.
func TestExtracts_FirstStaysFound(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
	s := p.Open(d.index, d.store, "set/")
	b, err := s.newBatch(d.ranges(t, []uint64{5, 20}))
	must(t, err)
	claimed := func(by manner) *part {
		x := &part{source: s, request: b, near: b, ranged: b.chunks}
		must(t, claim(t.Context(), []*part{x}, by))
		return x
	}
	first := claimed(manner{joins: true})
	second := claimed(manner{})
	if second.own == first.own || len(second.own.samples) != 2 {
		t.Fatal("got the second one joined to the first, want both samples of its own")
	}
	second.giveBack()
	third := claimed(manner{joins: true})
	if len(third.own.samples) != 0 || len(third.pinned) != 2 || third.pinned[1] != first.own {
		t.Errorf("got %d samples brought again and %d extracts pinned, want those of the first one", len(third.own.samples), len(third.pinned))
	}
	third.giveBack()
	first.giveBack()
	if n := p.extracted(); n != 0 {
		t.Errorf("got %d samples left, want none", n)
	}
}

// A batch that joined an extract whose load never begins retries immediately.
func TestExtracts_JoinersOfALoadThatNeverBeginsTryAgain(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
		s := p.Open(d.index, d.store, "set/")
		b, err := s.newBatch(d.ranges(t, []uint64{5, 20}))
		must(t, err)
		first := &part{source: s, request: b, near: b, ranged: b.chunks}
		must(t, claim(t.Context(), []*part{first}, manner{joins: true}))
		joined := d.reading(t.Context(), t, s, []uint64{5, 20})
		synctest.Wait()
		if n := d.store.Stats().Requests[memstore.Read]; n != 0 {
			t.Fatalf("got %d store reads of a batch that has joined, want none", n)
		}
		first.giveBack()
		got := <-joined
		must(t, got.err)
		got.body.Close()
	})
}
