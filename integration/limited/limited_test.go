//go:build linux

package limited_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/clustersim"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

const dataset = "photos"

// lab is a store, ranks, and machines for gateways. Each configuration starts its own gateways,
// with nothing in memory.
type lab struct {
	clustersim.Limited
	store          *harness.Store
	reads          *harness.Reads
	storeAt, ranks *harness.Node
	nodes          []*harness.Node
	tls            *certtest.Authority
	stored         int64 // bytes of all chunks
	log            *history.Log
}

func newLab(t *testing.T, l clustersim.Limited) *lab {
	t.Helper()
	bits := func(rate int64) string { return strconv.FormatInt(8*rate, 10) + "bit" }
	island := harness.NewIsland(t)
	b := &lab{
		Limited: l, tls: certtest.New(t),
		ranks: island.Node(t, "ranks", ""), storeAt: island.Node(t, "store", ""),
	}
	b.storeAt.Narrow(t, bits(l.StoreCard))
	b.store, b.reads = harness.MinIOBehindCount(t, b.storeAt, l.FirstByte)
	for i := range slices.MaxFunc(l.Ways, func(a, b clustersim.Way) int { return a.Gateways - b.Gateways }).Gateways {
		b.nodes = append(b.nodes, island.Node(t, fmt.Sprint("gw-", i), ""))
		b.nodes[i].Narrow(t, bits(l.Card))
	}
	files := t.TempDir()
	for i := range l.Samples {
		content := make([]byte, l.SampleBytes)
		copy(content, fmt.Sprint(i))
		if err := os.WriteFile(filepath.Join(files, fmt.Sprintf("%07d.bin", i)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harness.Pack(t, b.store, files, dataset, "--shard-size", strconv.FormatInt(l.Shard, 10), "--chunk-size", strconv.FormatInt(l.Chunk, 10))
	b.log = harness.Record(t, harness.Packed(t, b.store, dataset))
	alone := harness.ServeAt(t, b.storeAt, b.store, dataset)
	var about struct{ Bytes int64 }
	if err := json.Unmarshal(alone.MustGet(t, "/v1/datasets/"+dataset).Body, &about); err != nil || about.Bytes == 0 {
		t.Fatalf("describe the dataset: got %d bytes, %v", about.Bytes, err)
	}
	b.stored = about.Bytes
	alone.Kill()
	return b
}

// TestLimited runs every configuration, in rounds of alternating order, and prints the result of
// each.
func TestLimited(t *testing.T) {
	b := newLab(t, clustersim.NewLimited())
	for round := range b.Rounds {
		ways := slices.Clone(b.Ways)
		if round%2 == 1 {
			slices.Reverse(ways)
		}
		for _, w := range ways {
			o := b.run(t, w)
			line, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("figure: %s", line)
			once(t, o)
		}
	}
}

// once checks the bytes read from the store in configurations whose memory can hold all data. With
// routing by rank, two gateways read each chunk that contains the border between their homes.
// Gateways of a cluster read samples of the first batch individually, which is a notable part of
// such small data. They also read chunks twice if full links delay responses. Both are far less
// than if each gateway read everything.
func once(t *testing.T, o clustersim.Outcome) {
	t.Helper()
	if o.Way.Share > 0 || o.Way.Trouble != "" || o.Way.Name == "plain" {
		return
	}
	most, later := 1.02, 0.0
	if o.Way.Peers {
		most, later = 1.9, 0.05
	}
	if o.Epochs[0].Store < 0.99 || o.Epochs[0].Store > most || len(o.Epochs) > 1 && o.Epochs[1].Store > later {
		t.Errorf("%s of %d: got %+v, want all data from the store, at most %.2f of them, and then %.2f", o.Way.Name, o.Way.Gateways, o.Epochs, most, later)
	}
}

// run reads the epochs of one configuration.
func (b *lab) run(t *testing.T, w clustersim.Way) clustersim.Outcome {
	t.Helper()
	gateways := b.start(t, w)
	defer func() {
		for _, g := range gateways {
			g.Kill()
		}
	}()
	before, began := b.processors(t, gateways), time.Now()
	o := clustersim.Outcome{Way: w}
	defer b.strike(t, w, gateways)()
	for epoch := range w.Epochs {
		b.reads.Forget()
		exchanged := b.exchanged(t, w, gateways)
		steps, err := b.epoch(t, w, gateways, epoch)
		if err != nil {
			t.Fatalf("%+v, epoch %d: %v", w, epoch, err)
		}
		e := clustersim.EpochOf(steps)
		e.Store = float64(b.reads.Bytes()) / float64(b.stored)
		e.Exchanged = max(0, b.exchanged(t, w, gateways)-exchanged) / float64(b.stored)
		o.Epochs = append(o.Epochs, e)
	}
	o.CPU = (b.processors(t, gateways) - before).Seconds() / time.Since(began).Seconds()
	return o
}

// start starts the gateways of a configuration.
func (b *lab) start(t *testing.T, w clustersim.Way) (gateways []*harness.Gateway) {
	t.Helper()
	nodes, args := b.nodes[:w.Gateways], []string{"--cache-size", strconv.FormatInt(w.Memory(b.stored), 10), "--lame-duck", "0s"}
	if !w.Peers {
		for _, n := range nodes {
			gateways = append(gateways, harness.ServeAt(t, n, b.store.With(b.reads.Env...), dataset, args...))
		}
		return gateways
	}
	f := harness.NewFleet(t, harness.FleetConfig{Store: b.store, Env: b.reads.Env, Dataset: dataset, Size: w.Gateways, Nodes: nodes, TLS: b.tls, Args: args})
	f.StartAll(t)
	f.Agree(t)
	for _, m := range f.Members {
		gateways = append(gateways, m.Gateway)
	}
	return gateways
}

// strike makes gateway 1 fail according to the configuration. undo ends the failure.
func (b *lab) strike(t *testing.T, w clustersim.Way, gateways []*harness.Gateway) (undo func()) {
	t.Helper()
	switch w.Trouble {
	case clustersim.Kill:
		time.AfterFunc(clustersim.TroubleAt, gateways[1].Kill)
	case clustersim.Stop:
		time.AfterFunc(clustersim.TroubleAt, gateways[1].Freeze)
	case clustersim.StoreCut:
		b.nodes[1].Lose(t, b.storeAt)
		return func() { b.nodes[1].Find(t, b.storeAt) }
	}
	return func() {}
}

// exchanged returns the number of bytes that healthy gateways have read from one another.
func (b *lab) exchanged(t *testing.T, w clustersim.Way, gateways []*harness.Gateway) (sum float64) {
	t.Helper()
	for i, g := range gateways {
		if !w.Peers || i == 1 && (w.Trouble == clustersim.Kill || w.Trouble == clustersim.Stop) {
			continue
		}
		sum += g.Metric(t, "millrace_peer_read_bytes_total", "")
	}
	return sum
}

// epoch reads one epoch with all ranks in step, and returns the duration of each step, computing
// time included.
func (b *lab) epoch(t *testing.T, w clustersim.Way, gateways []*harness.Gateway, epoch uint64) ([]time.Duration, error) {
	t.Helper()
	opt := client.Options{
		Shuffle: "slot", Window: b.Lanes, Epoch: epoch, BatchSize: b.Batch, WorldSize: uint64(b.Ranks), Prefetch: b.Ahead,
	}
	if w.Locality {
		opt.Share, opt.Homes = "locality", uint64(w.Gateways)
	}
	job := fmt.Sprint("epoch ", epoch)
	step := &steps{ranks: b.Ranks, last: time.Now(), open: make(chan struct{})}
	ranks, ctx := errgroup.WithContext(t.Context())
	for rank := range uint64(b.Ranks) {
		c := b.client(t, w, gateways)
		ranks.Go(func() error {
			opt := opt
			opt.Rank = rank
			for batch, err := range c.Batches(ctx, opt) {
				if err != nil {
					return fmt.Errorf("rank %d: %w", rank, err)
				}
				b.log.Took(fmt.Sprint("rank ", rank), job, batch)
				if err := step.wait(ctx); err != nil {
					return err
				}
				time.Sleep(w.Think)
			}
			return nil
		})
	}
	err := ranks.Wait()
	b.log.Complete("ranks", job, 0)
	return step.took, cmp.Or(err, b.log.Err())
}

func (b *lab) client(t *testing.T, w clustersim.Way, gateways []*harness.Gateway) *client.Client {
	t.Helper()
	cfg := client.Config{Home: client.HomeByRank, Dataset: dataset, HTTP: &http.Client{Transport: b.ranks.Transport()}}
	for _, g := range gateways {
		cfg.Gateways = append(cfg.Gateways, g.URL)
	}
	if w.Trouble != "" {
		cfg.AttemptTimeout = b.Limit
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// steps makes ranks wait for one another, and records the duration of each step.
type steps struct {
	ranks int

	mu   sync.Mutex // guards the fields below
	came int
	last time.Time
	took []time.Duration
	open chan struct{}
}

// wait returns when all ranks have a batch.
func (s *steps) wait(ctx context.Context) error {
	s.mu.Lock()
	open := s.open
	s.came++
	if s.came == s.ranks {
		now := time.Now()
		s.took = append(s.took, now.Sub(s.last))
		s.came, s.last, s.open = 0, now, make(chan struct{})
		close(open)
	}
	s.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// processors returns the processor time of the store, the gateways and this process, which runs the
// ranks.
func (b *lab) processors(t *testing.T, gateways []*harness.Gateway) (all time.Duration) {
	t.Helper()
	pids := []int{os.Getpid(), b.store.Server().Pid()}
	for _, g := range gateways {
		pids = append(pids, g.Pid())
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has been killed
		}
		fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+2:])
		for _, ticks := range fields[11:13] { // user and system time, in hundredths of a second
			n, err := strconv.Atoi(ticks)
			if err != nil {
				t.Fatal(err)
			}
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return all
}
