package simulate_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/datapath/simulate"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// Data of the validation: chunks of samples of 4 KiB, and perShard chunks in each shard.
const (
	chunks, each = 128, 32
	sampleBytes  = 4096
	perShard     = 32
)

// real is the data of the comparison as stored for the data path.
type real struct {
	inner *memstore.Store
	index *chunkindex.Index
}

func newReal(t *testing.T) *real {
	t.Helper()
	d := &real{inner: memstore.New()}
	for at := 0; at < chunks; at += perShard {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := at * each; i < (at+perShard)*each; i++ {
			check(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%06d.bin", i), Mode: 0o644, Size: sampleBytes - 512}))
			_, err := w.Write(make([]byte, sampleBytes-512))
			check(t, err)
		}
		check(t, w.Close())
		d.inner.Set(fmt.Sprintf("d/%06d.tar", at/perShard), b.Bytes())
	}
	_, err := build.Run(t.Context(), d.inner, "d/", build.Options{ChunkSize: each * sampleBytes, Parallel: 1})
	check(t, err)
	d.index, err = chunkindex.Open(t.Context(), d.inner, "d/", chunkindex.OpenOptions{CacheDir: t.TempDir()})
	check(t, err)
	t.Cleanup(func() { d.index.Close() })
	if got := d.index.Chunks(); got != chunks {
		t.Fatalf("got %d chunks, want %d", got, chunks)
	}
	return d
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// known returns the same data for the model.
func (d *real) known() *simulate.Data {
	k := &simulate.Data{
		First: d.index.First(), Chunks: make([]simulate.Chunk, chunks),
		Digest: func(chunk int) [32]byte { return d.index.Chunk(chunk).Digest },
	}
	for i := range k.Chunks {
		e := d.index.Extents(i)[0]
		k.Chunks[i] = simulate.Chunk{Shard: e.Shard, Offset: e.Offset, Length: e.Length}
	}
	return k
}

// outcome is the result of one epoch.
type outcome struct {
	took         time.Duration
	reads, bytes int64 // store reads, and their bytes
	asked, peers int64 // queries between gateways, and the bytes of their answers
}

// run reads the epochs of a setting through a data path and a shaped store. It must be called in a
// bubble: the clock advances only by the shape and the ranks' think times, so the times are
// computed and not measured.
func (d *real) run(t *testing.T, s simulate.Setting) []outcome {
	store := shaped.New(d.inner, shaped.Shape{FirstByte: s.FirstByte, Stream: s.StoreStream, Total: s.StoreRate})
	plan, err := shuffle.NewPlan(s.Order, d.index.First())
	if err != nil {
		t.Error(err)
		return nil
	}
	w := newWires(&s, plan)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, m := range w.members {
		cfg := datapath.Config{
			Budget: budget.New(s.CacheSize, time.Minute), Fetchers: s.Fetchers, PartSize: s.PartSize, Policy: s.Policy,
		}
		if s.Gateways > 1 {
			cfg.Peers = m
		}
		m.path = datapath.New(cfg)
		m.source = m.path.Open(d.index, linked{store, &m.down}, "d/")
		m.source.Share("d")
		running.Go(func() { _ = m.path.Run(ctx) })
	}
	defer func() {
		stop()
		running.Wait()
		for _, m := range w.members {
			m.path.Close()
		}
	}()
	var all []outcome
	for n := range s.Epochs {
		begun, before, asked := time.Now(), store.Stats(), w.stats()
		epoch := plan.Epoch(uint64(n))
		var ranks sync.WaitGroup
		for k := range s.Ranks {
			ranks.Go(func() { d.rank(t, w, w.members[k*s.Gateways/s.Ranks], epoch, k) })
		}
		ranks.Wait()
		after := store.Stats()
		more := w.stats()
		all = append(all, outcome{
			time.Since(begun), after.Reads - before.Reads, after.BytesRead - before.BytesRead,
			int64(more.PeerReads - asked.PeerReads), int64(more.PeerBytes - asked.PeerBytes),
		})
	}
	return all
}

// rank reads one rank's shares, with a pause after each for computing.
func (d *real) rank(t *testing.T, w *wires, m *member, epoch *shuffle.Epoch, rank int) {
	s, plan := w.set, w.plan
	b := shuffle.Batching{Samples: plan.Samples(), BatchSize: s.BatchSize, Tail: shuffle.Short}
	asked := make([]chan struct{}, 0, b.Batches())
	var requests sync.WaitGroup
	defer requests.Wait()
	for i := range b.Batches() {
		for uint64(len(asked)) < min(i+uint64(s.ReadAhead)+1, b.Batches()) {
			n, done := uint64(len(asked)), make(chan struct{})
			asked = append(asked, done)
			requests.Go(func() {
				defer close(done)
				at := shuffle.Cursor{
					Plan: plan, Epoch: epoch, First: n * s.BatchSize, End: min((n+1)*s.BatchSize, plan.Samples()), BatchSize: s.BatchSize,
					Rank: uint64(rank), WorldSize: uint64(s.Ranks), Sharing: s.Sharing,
				}
				samples := w.share(epoch, b, n, uint64(rank))
				body, err := m.source.Read(t.Context(), at, d.ranges(t, samples))
				if err != nil {
					t.Error(err)
					return
				}
				if !s.RanksNear {
					m.up.carry(int64(len(samples)) * sampleBytes)
				}
				body.Close()
			})
		}
		<-asked[i]
		time.Sleep(s.Think(rank, b.Share(i, uint64(rank), uint64(s.Ranks)).Count))
	}
}

// ranges locates samples.
func (d *real) ranges(t *testing.T, samples []uint64) []batch.ChunkRanges {
	var all []batch.ChunkRanges
	place := map[int]int{}
	for seq, n := range samples {
		c := d.index.ChunkOf(n)
		table, err := d.index.Table(t.Context(), c)
		if err != nil {
			t.Error(err)
			return nil
		}
		if _, ok := place[c]; !ok {
			place[c] = len(all)
			all = append(all, batch.ChunkRanges{Chunk: c})
		}
		i := n - d.index.Chunk(c).First
		r := &all[place[c]].Ranges
		*r = append(*r, batch.Range{Seq: seq, Offset: table.Offset(int(i)), Length: table.Length(int(i)), CRC32C: table.CRC32C(int(i))})
	}
	return all
}

// byRanges is the name of the case in which a first batch does not wait for whole chunks.
const byRanges = "first batch by ranges"

// setting returns a basic setting: store-bound, with memory for half of the data.
func setting() simulate.Setting {
	return simulate.Setting{
		Order:     shuffle.Params{Shuffle: shuffle.Window, Window: 8, Seed: 3},
		BatchSize: 64, Epochs: 2, Ranks: 4, Rate: 8192, Skew: 1, ReadAhead: 1, Gateways: 1,
		CacheSize: chunks * each * sampleBytes / 2, Policy: policy.Plan, Fetchers: 6, PartSize: 16 << 20,
		StoreRate: 4096 * sampleBytes, StoreStream: 1024 * sampleBytes, FirstByte: 20 * time.Millisecond,
	}
}

// TestRun_AgreesWithDataPath compares the model with the actual data path, both under a fake clock,
// so that differences come only from the model.
func TestRun_AgreesWithDataPath(t *testing.T) {
	d := newReal(t)
	for name, change := range map[string]func(*simulate.Setting){
		"plan":       func(*simulate.Setting) {},
		"lru":        func(s *simulate.Setting) { s.Policy = policy.LRU },
		"slot":       func(s *simulate.Setting) { s.Order.Shuffle = shuffle.Slot },
		"none":       func(s *simulate.Setting) { s.Order.Shuffle = shuffle.None },
		"job-bound":  func(s *simulate.Setting) { s.Rate = 1024 },
		"one rank":   func(s *simulate.Setting) { s.Ranks, s.Policy = 1, policy.LRU },
		"all fits":   func(s *simulate.Setting) { s.CacheSize *= 4 },
		"full":       func(s *simulate.Setting) { s.Order.Shuffle, s.Rate = shuffle.Full, 1e6 },
		"full, fits": func(s *simulate.Setting) { s.Order.Shuffle, s.CacheSize = shuffle.Full, 4*s.CacheSize },
		"quarter":    func(s *simulate.Setting) { s.CacheSize, s.Order.Window = s.CacheSize/2, 4 },
		byRanges:     func(s *simulate.Setting) { s.CacheSize, s.Order.Window, s.PartSize = 4*s.CacheSize, 64, 64<<10 },
	} {
		t.Run(name, func(t *testing.T) {
			s := setting()
			change(&s)
			want, err := simulate.Run(t.Context(), d.known(), s)
			check(t, err)
			if got := want.Epochs[0].Ranges > 0; name == byRanges && !got {
				t.Error("got no reads of samples by themselves, want those of the first batch")
			}
			bubble.Test(t, func(t *testing.T) {
				for i, got := range d.run(t, s) {
					e := &want.Epochs[i]
					near(t, fmt.Sprintf("epoch %d: reads", i), float64(e.Reads), float64(got.reads), .05*max(chunks, float64(got.reads)))
					near(t, fmt.Sprintf("epoch %d: bytes", i), float64(e.StoreBytes), float64(got.bytes), .05*chunks*each*sampleBytes)
					near(t, fmt.Sprintf("epoch %d: seconds", i), e.Time.Seconds(), got.took.Seconds(), .1*got.took.Seconds())
				}
			})
		})
	}
}

func near(t *testing.T, what string, predicted, got, within float64) {
	t.Helper()
	if math.Abs(predicted-got) > within {
		t.Errorf("%s: predicted %.6g, the data path made it %.6g, want within %.3g", what, predicted, got, within)
	}
}
