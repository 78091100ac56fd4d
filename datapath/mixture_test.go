package datapath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// mixedSets are the sources of a mixture, with their data.
type mixedSets struct {
	sets    []*dataset
	mixture *Mixture
	sources []*Source
}

func mixedOf(paths []*Path, sets []*dataset, sources []*Source) *mixedSets {
	m := &mixedSets{sets: sets, sources: sources}
	var parts []Part
	for i, s := range sources {
		parts = append(parts, Part{Name: fmt.Sprintf("source-%d", i), Source: s})
	}
	m.mixture = Mix(paths, parts)
	return m
}

// ranges locates samples, each given by its dataset and its number in it. Chunks have the numbers
// of the mixture, and the k-th sample becomes segment k.
func (m *mixedSets) ranges(tb testing.TB, samples [][2]uint64) []batch.ChunkRanges {
	tb.Helper()
	var out []batch.ChunkRanges
	first := 0
	for i, d := range m.sets {
		var own []uint64
		var seqs []int
		for seq, s := range samples {
			if s[0] == uint64(i) {
				own, seqs = append(own, s[1]), append(seqs, seq)
			}
		}
		for _, c := range d.ranges(tb, own) {
			for k := range c.Ranges {
				c.Ranges[k].Seq = seqs[c.Ranges[k].Seq]
			}
			c.Chunk += first
			out = append(out, c)
		}
		first += d.index.Chunks()
	}
	return out
}

// check compares a body with the stored bytes, before and after the body settles.
func (m *mixedSets) check(chunks []batch.ChunkRanges, body *batch.Body) error {
	if err := m.compare(chunks, body); err != nil {
		return err
	}
	body.Settle()
	if err := m.compare(chunks, body); err != nil {
		return fmt.Errorf("settled: %w", err)
	}
	return nil
}

func (m *mixedSets) compare(chunks []batch.ChunkRanges, body *batch.Body) error {
	n, first := 0, 0
	for _, d := range m.sets {
		for _, c := range chunks {
			own := c.Chunk - first
			if own < 0 || own >= d.index.Chunks() {
				continue
			}
			for _, r := range c.Ranges {
				n++
				if !slices.Equal(body.Segments[r.Seq], d.stored(own, r)) {
					return fmt.Errorf("chunk %d segment %d: got other bytes than stored", c.Chunk, r.Seq)
				}
			}
		}
		first += d.index.Chunks()
	}
	if len(body.Segments) != n {
		return fmt.Errorf("got %d segments, want %d", len(body.Segments), n)
	}
	return nil
}

// batch draws a batch with samples of every dataset, for a reader with plans at a position, or for
// a reader without plans.
func (m *mixedSets) batch(tb testing.TB, rnd *rand.Rand, plans []*shuffle.Plan) (at shuffle.Cursor, chunks []batch.ChunkRanges) {
	tb.Helper()
	var samples [][2]uint64
	at.Parts = make([]shuffle.Cursor, len(m.sets))
	for i, p := range plans {
		size := 1 + rnd.Uint64N(12)
		e := p.Epoch(rnd.Uint64N(2))
		lo := rnd.Uint64N(p.Samples()/size) * size
		hi := min(lo+size, p.Samples())
		for _, n := range e.Append(nil, lo, hi) {
			samples = append(samples, [2]uint64{uint64(i), n})
		}
		if rnd.IntN(4) > 0 {
			at.Parts[i] = shuffle.Cursor{Plan: p, Epoch: e, First: lo, End: hi, BatchSize: size, Dealt: true}
		}
	}
	rnd.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	return at, m.ranges(tb, samples)
}

// mixedForms returns datasets in all formats, each with different bytes.
func mixedForms(t *testing.T) (sets []*dataset) {
	t.Helper()
	for i, form := range forms() {
		lengths := make([]int, 60+20*i)
		for k := range lengths {
			lengths[k] = k * 53 % 1500
		}
		perShard := 40
		if form == gzips {
			perShard = 8 // each shard is one chunk
		}
		sets = append(sets, newDatasetOf(t, form, uint64(20+i), lengths, perShard, 6<<10))
	}
	return sets
}

// mixing is a process with two paths, and two mixtures of the same sources in opposite order. The
// sources are all in one path, or spread over both.
type mixing struct {
	paths    []*Path
	mixtures []*mixedSets
	stop     func()
}

func newMixing(rnd *rand.Rand, sets []*dataset, wait time.Duration) *mixing {
	m := &mixing{}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 2 {
		p := New(Config{
			Budget: budget.New(int64(160+rnd.IntN(200))<<10, wait), Fetchers: 1 + rnd.IntN(12), PartSize: 2 << 10 << rnd.IntN(5),
			NoPrefetch: rnd.IntN(2) == 0, Debug: true,
		})
		m.paths = append(m.paths, p)
		running.Go(func() { _ = p.Run(ctx) })
	}
	m.stop = func() { stop(); running.Wait() }
	var sources []*Source
	first, among := rnd.IntN(2), 1+rnd.IntN(2)
	for i, d := range sets {
		sources = append(sources, m.paths[(first+i%among)%2].Open(d.index, d.store, "set/"))
	}
	m.mixtures = append(m.mixtures, mixedOf(m.paths, sets, sources))
	sets, sources = slices.Clone(sets), slices.Clone(sources)
	slices.Reverse(sets)
	slices.Reverse(sources)
	m.mixtures = append(m.mixtures, mixedOf(m.paths, sets, sources))
	return m
}

// close stops the process and checks that no resources are held.
func (m *mixing) close(t *testing.T) {
	t.Helper()
	m.stop()
	for _, p := range m.paths {
		finish(t, p)
	}
}

// plans makes a plan for each source.
func (m *mixedSets) plans(tb testing.TB, rnd *rand.Rand) (plans []*shuffle.Plan) {
	tb.Helper()
	names := []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}
	for _, d := range m.sets {
		plans = append(plans, d.plan(tb, names[rnd.IntN(4)], 1+rnd.Uint64N(12)))
	}
	return plans
}

// Batches of mixtures with sources in all forms are requested concurrently, with memory for one or
// two batches and slow clients. A batch may wait long for memory, and there is enough for any batch
// whose turn has come. So each batch must arrive: if batches held memory while they waited for
// more, some would deadlock.
func TestBatchesOfMixturesDoNotWaitForEachOther(t *testing.T) {
	sets := mixedForms(t)
	from, to, _ := seeds.Range(t, usualScenarios/20, 100_000/20)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 201))
			m := newMixing(rnd, sets, 10*time.Minute)
			defer m.close(t)
			var readers sync.WaitGroup
			defer readers.Wait()
			for n := range 16 {
				of, own := m.mixtures[n%2], rand.New(rand.NewPCG(rnd.Uint64(), 202))
				readers.Go(func() {
					at, chunks := of.batch(t, own, of.plans(t, own))
					body, err := of.mixture.Read(t.Context(), at, chunks)
					if err != nil {
						t.Errorf("batch %d: got %v, want its bytes", n, err)
						return
					}
					time.Sleep(time.Duration(own.IntN(3000)) * time.Millisecond) // simulate a slow client, in fake time
					if err := of.check(chunks, body); err != nil {
						t.Error(err)
					}
					body.Close()
				})
			}
		})
		if t.Failed() {
			t.Fatalf("scenario %d", seed)
		}
	}
}

// Like the test above, with a store that fails and readers that leave. Each read ends with the
// stored bytes or an explicit error, at most a second after its deadline, and nothing remains held.
func TestStormOfMixtures(t *testing.T) {
	sets := mixedForms(t)
	ended := map[string]int{}
	from, to, few := seeds.Range(t, usualScenarios/20, 100_000/20)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 203))
			for _, d := range sets {
				d.store.Reset()
				d.store.SetFault(script(rnd.Uint64(), rnd.IntN(3)))
				defer d.store.SetFault(nil)
			}
			m := newMixing(rnd, sets, 2*time.Second)
			defer m.close(t)
			var mu sync.Mutex // guards ended
			var readers sync.WaitGroup
			defer readers.Wait()
			for n := range 8 {
				of, own := m.mixtures[n%2], rand.New(rand.NewPCG(rnd.Uint64(), 204))
				readers.Go(func() {
					kind := of.storm(t, own)
					mu.Lock()
					ended[kind]++
					mu.Unlock()
				})
			}
		})
		if t.Failed() {
			t.Fatalf("scenario %d", seed)
		}
	}
	if few {
		return
	}
	for _, kind := range []string{"bytes", "canceled", "deadline", "store", "corrupt", "overloaded"} {
		if ended[kind] == 0 {
			t.Errorf("got none of %q: %v", kind, ended)
		}
	}
	t.Logf("reads ended so: %v", ended)
}

// storm reads a batch and returns the kind of its result.
func (m *mixedSets) storm(t *testing.T, rnd *rand.Rand) string {
	limit := time.Duration(1+rnd.IntN(5000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if rnd.IntN(4) == 0 {
		defer time.AfterFunc(limit/3, cancel).Stop()
	}
	at, chunks := m.batch(t, rnd, m.plans(t, rnd))
	begun := time.Now()
	body, err := m.mixture.Read(ctx, at, chunks)
	if took := time.Since(begun); took > limit+time.Second {
		t.Errorf("a read with a limit of %v took %v (%v)", limit, took, err)
	}
	if err != nil {
		var where *chunkindex.RangeError
		if errors.As(err, &where) && !m.holds(where) {
			t.Errorf("got shard %d for %s, want its number in the mixture", where.Shard, where.Key)
		}
		return readEnd(ctx, t, err)
	}
	time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
	if err := m.check(chunks, body); err != nil {
		t.Error(err)
	}
	body.Close()
	return "bytes"
}

// holds reports whether an error names a shard by its number in the mixture, and by its key after
// the name of its source.
func (m *mixedSets) holds(where *chunkindex.RangeError) bool {
	n := where.Shard
	for _, d := range m.sets {
		if n < d.index.Shards() {
			return strings.HasSuffix(where.Key, "/"+d.index.Shard(n).Key)
		}
		n -= d.index.Shards()
	}
	return false
}

// A mixture queries other gateways for a shared dataset just as the dataset itself does, even if
// memory is reserved for the whole batch at once.
func TestMixtureAsksPeers(t *testing.T) {
	d := newDataset(t, 110, same(240, 1000), 60, 6<<10)
	ended := map[string]int{}
	from, to, few := seeds.Range(t, usualScenarios/100, 100_000/100)
	for seed := from; seed < to; seed++ {
		bubble.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 205))
			f := newFleet(t, d, d.plan(t, shuffle.Slot, 4), 3, Config{NoPrefetch: rnd.IntN(2) == 0}, int64(40+rnd.IntN(60))<<10)
			var mu sync.Mutex // guards ended
			var readers sync.WaitGroup
			for range 24 {
				g, own := f.members[rnd.IntN(3)], rand.New(rand.NewPCG(rnd.Uint64(), 206))
				m := mixedOf([]*Path{g.path}, []*dataset{d, d}, []*Source{g.source, g.source})
				readers.Go(func() {
					kind := m.storm(t, own)
					mu.Lock()
					ended[kind]++
					mu.Unlock()
				})
			}
			readers.Wait()
			ended["peer bytes"] += int(f.stats().PeerBytes)
		})
		if t.Failed() {
			t.Fatalf("scenario %d", seed)
		}
	}
	if !few && (ended["bytes"] == 0 || ended["peer bytes"] == 0) {
		t.Errorf("got %v, want bytes, of peers too", ended)
	}
	t.Logf("reads ended so: %v", ended)
}

func TestMixtureRefuses(t *testing.T) {
	d := newDataset(t, 111, same(40, 1000), 20, 6<<10)
	p := newPath(t, Config{Budget: bud(40 << 10)})
	s := p.Open(d.index, d.store, "set/")
	m := mixedOf([]*Path{p}, []*dataset{d, d}, []*Source{s, s})
	for want, chunks := range map[string][]batch.ChunkRanges{
		"no such chunk":     {{Chunk: 2 * d.index.Chunks(), Ranges: []batch.Range{{Length: 1}}}},
		"source source-1: ": {{Chunk: d.index.Chunks(), Ranges: []batch.Range{{Offset: 1 << 30, Length: 1}}}},
	} {
		if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, chunks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// Half of the batch fits into the memory; the whole batch never can.
	var samples [][2]uint64
	for n := range uint64(20) {
		samples = append(samples, [2]uint64{0, n}, [2]uint64{1, n})
	}
	if _, err := m.mixture.Read(t.Context(), shuffle.Cursor{}, m.ranges(t, samples)); !errors.Is(err, budget.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, budget.ErrTooLarge)
	}
}
