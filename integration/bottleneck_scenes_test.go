package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// setting is a scene, with the store of its gateways.
type setting struct {
	scene
	store *harness.Store
}

// kind decides how a situation is judged.
type kind int

const (
	sideBySide kind = iota
	byItself        // it uses all processors: no other scene runs meanwhile
	shortLived      // it ends after about five seconds: only the three responses after the first right one count
)

// bottleneck is a load, with the code that the gateway must report as its readers' bottleneck.
type bottleneck struct {
	want string
	kind kind
	meet func(*testing.T) setting
	says string // expected text in the sentence
}

// bottlenecks returns the situations by name. The first ones have a single cause; the others
// resemble another situation.
func bottlenecks() map[string]bottleneck {
	of := func(meet func(*testing.T) scene) func(*testing.T) setting {
		return func(t *testing.T) setting { return setting{scene: meet(t)} }
	}
	return map[string]bottleneck{
		"nobody reads":                           {"nobody", sideBySide, of(idle), ""},
		"bodies hold all memory":                 {"memory", sideBySide, of(fullBudget), ""},
		"the store denies":                       {"store-fails", sideBySide, of(func(t *testing.T) scene { return storeFails(t, denies) }), ""},
		"another gateway falls silent":           {"peers", shortLived, of(silentPeer), ""},
		"one rank is slow":                       {"rank", sideBySide, of(slowRank), ""},
		"ranks compute":                          {"readers", sideBySide, of(func(t *testing.T) scene { return computes(t, 4*think) }), ""},
		"small memory before a slow store":       {"cache", sideBySide, thrashFar, ""},
		"a slow store":                           {"store", sideBySide, func(t *testing.T) setting { return slowStoreFor(t, share(2, 0, 1), think/10) }, ""},
		"a dataset at its bandwidth limit":       {"store", sideBySide, limitedBandwidth, "The address of photos limits it to 0.2 MB/s."},
		"small memory before a disk":             {"disk", byItself, of(fromDisk), ""},
		"a slow store behind other gateways":     {"peer", sideBySide, of(slowOwners), ""},
		"a narrow way to the reader":             {"network", sideBySide, of(narrowWay), ""},
		"a reader that takes bytes slowly":       {"network", sideBySide, of(takesSlowly), ""},
		"20000 small rows a batch as Arrow":      {"planning", byItself, of(manyRows), ""},
		"readers that do nothing but read":       {"gateway", byItself, of(onlyRead), ""},
		"a slower reader than the slow store":    {"readers", sideBySide, func(t *testing.T) setting { return slowStoreFor(t, share(2, 0, 1), 60*think) }, ""},
		"a slow store that became fast":          {"readers", sideBySide, becomesFast, ""},
		"a fast store and nothing in memory":     {"readers", sideBySide, of(coldStart), ""},
		"small memory and ranks that compute":    {"readers", sideBySide, of(thrashNear), ""},
		"a slow rank and a slow store":           {"rank", sideBySide, slowRankSlowStore, ""},
		"one rank has stopped":                   {"rank", sideBySide, of(func(t *testing.T) scene { return restsFor(t, time.Hour) }), ""},
		"one rank had stopped and goes on":       {"readers", sideBySide, of(func(t *testing.T) scene { return restsFor(t, 4*time.Second) }), ""},
		"a slow rank for which all others wait":  {"readers", sideBySide, of(inStep), ""},
		"a slow rank while others read ahead":    {"readers", sideBySide, of(readAhead), "Rank 2 of 4 of photos is the last to request batches"},
		"one job has ended and another computes": {"readers", sideBySide, of(hasEnded), ""},
	}
}

// drains reads n batches, one after another, and discards the bytes.
func drains(g *harness.Gateway, n int, query string) func(context.Context) {
	return func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+batchPath(m/n, m%n)+query, nil)
			if err != nil {
				return
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
}

// inMemory returns a gateway with the whole dataset in memory.
func inMemory(t *testing.T) *harness.Gateway {
	t.Helper()
	g := serve(t, packed(t, "dir"))
	for m := range 25 {
		g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
	}
	return g
}

func idle(t *testing.T) scene {
	return scene{func(context.Context) {}, []*harness.Gateway{serve(t, packed(t, "dir"))}}
}

// computes is a rank that reads batches from memory and computes between them.
func computes(t *testing.T, think time.Duration) scene {
	g := inMemory(t)
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

// beforeSlow returns a gateway whose store delays each read while slow is set.
func beforeSlow(t *testing.T, slow *atomic.Bool) (*harness.Gateway, *harness.Store) {
	t.Helper()
	var fault atomic.Pointer[http.HandlerFunc]
	store := behind(t, packedLarger(t, "versitygw"), &fault)
	g := serve(t, store, "--no-prefetch")
	late := slowStore(&atomic.Bool{})
	sometimes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			late(w, r)
		}
	})
	slow.Store(true)
	fault.Store(&sometimes)
	return g, store
}

func slowStoreFor(t *testing.T, query string, think time.Duration) setting {
	g, store := beforeSlow(t, new(atomic.Bool))
	return setting{scene{trains(g, 400, think, query), []*harness.Gateway{g}}, store}
}

// limitedBandwidth is a gateway whose dataset gets 200 KB per second, so that no batch ends while it is judged.
func limitedBandwidth(t *testing.T) setting {
	store := packedLarge(t, "versitygw")
	g := harness.ServeAddress(t, store, dataset+"="+store.Dataset(dataset)+"?bandwidth=200KB")
	return setting{scene{trains(g, 4, think, share(128, 0, 1)), []*harness.Gateway{g}}, store}
}

// becomesFast is a store that is slow for the first seconds, with a rank that hardly computes
// meanwhile.
func becomesFast(t *testing.T) setting {
	var slow atomic.Bool
	g, store := beforeSlow(t, &slow)
	turn := func(ctx context.Context) { pause(ctx, settles); slow.Store(false) }
	return setting{scene{together(turn, trains(g, 400, 2*think, share(2, 0, 1))), []*harness.Gateway{g}}, store}
}

func slowRankSlowStore(t *testing.T) setting {
	g, store := beforeSlow(t, new(atomic.Bool))
	return setting{scene{together(trains(g, 400, think/10, share(2, 0, 2)), trains(g, 400, 60*think, share(2, 1, 2))), []*harness.Gateway{g}}, store}
}

func coldStart(t *testing.T) scene {
	g := serve(t, packedLarger(t, "dir"))
	return scene{trains(g, 50, 4*think, share(16, 0, 1)), []*harness.Gateway{g}}
}

// packedLarge packs some 38 MB in chunks of 256 KiB.
func packedLarge(t *testing.T, kind string) *harness.Store {
	t.Helper()
	files, _ := harness.Files(t, 800, 64<<10)
	store := harness.Open(t, kind)
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "256KiB", "--batch-size", "8")
	return store
}

// seeds runs n jobs of one rank each; every job reads in its own order.
func seeds(n int, job func(query string) func(context.Context)) func(context.Context) {
	var loads []func(context.Context)
	for seed := range n {
		loads = append(loads, job(fmt.Sprintf("?batch_size=8&seed=%d", seed)))
	}
	return together(loads...)
}

// thrashFar is a gateway with too little memory for its readers, in front of a slow store.
func thrashFar(t *testing.T) setting {
	var fault atomic.Pointer[http.HandlerFunc]
	store := behind(t, packedLarge(t, "versitygw"), &fault)
	g := harness.Serve(t, store, dataset, "--cache-size", "16MiB")
	slow := slowStore(&atomic.Bool{})
	fault.Store(&slow)
	return setting{scene{seeds(6, func(q string) func(context.Context) { return trains(g, 100, think/10, q) }), []*harness.Gateway{g}}, store}
}

// thrashNear is a gateway with too little memory, in front of a store that is fast enough for ranks
// that compute.
func thrashNear(t *testing.T) scene {
	g := harness.Serve(t, packedLarge(t, "dir"), dataset, "--cache-size", "16MiB")
	return scene{seeds(6, func(q string) func(context.Context) { return trains(g, 100, 10*think, q) }), []*harness.Gateway{g}}
}

// fromDisk is a gateway with too little memory, and a disk tier that holds all 114 chunks. Samples
// are small and drawn from the whole dataset, so that reading one takes longer than sending it.
func fromDisk(t *testing.T) scene {
	dir := t.TempDir()
	files, _ := harness.Files(t, 4000, 8<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "256KiB", "--batch-size", "16")
	g := harness.Serve(t, store, dataset, append(withDisk(dir), "--cache-size", "8MiB")...)
	// The disk tier skips chunks that arrive during many writes; a later read writes them.
	g.Ready(t, func(context.Context) error {
		for m := range 250 {
			g.MustGet(t, batchPath(0, m)+"?shuffle=none")
		}
		if kept := g.Metric(t, "millrace_disk_chunks", ""); kept < 114 {
			return fmt.Errorf("%v chunks are on disk", kept)
		}
		return nil
	})
	return scene{together(
		drains(g, 250, "?shuffle=full&seed=1"), drains(g, 250, "?shuffle=full&seed=2"), func(ctx context.Context) { uncached(ctx, dir) },
	), []*harness.Gateway{g}}
}

// slowOwners is one of four gateways in front of a slow store. The gateway reads three quarters of
// its chunks from the others.
func slowOwners(t *testing.T) scene {
	var fault atomic.Pointer[http.HandlerFunc]
	store := behind(t, packedLarger(t, "versitygw"), &fault)
	f := harness.NewFleet(t, harness.FleetConfig{Store: store, Dataset: dataset, Size: 4, Args: []string{"--cache-size", "8MiB", "--no-prefetch"}})
	f.StartAll(t)
	f.Agree(t)
	slow := slowStore(&atomic.Bool{})
	fault.Store(&slow)
	return scene{trains(f.Members[0].Gateway, 800, think/10, share(1, 0, 1)+"&shuffle=full"), []*harness.Gateway{f.Members[0].Gateway}}
}

// narrowWay is a rank behind a link of 20 MB/s, which is less than the rank would read.
func narrowWay(t *testing.T) scene {
	g := harness.Serve(t, heavy(t), dataset, "--cache-size", "256MiB")
	for m := range 11 {
		g.MustGet(t, fmt.Sprintf("/epoch/0/batch/%d?batch_size=36", m))
	}
	far := *g
	far.URL = narrow(t, g.URL, 20e6)
	return scene{trains(&far, 11, think, share(36, 0, 1)), []*harness.Gateway{g}}
}

// narrow starts a proxy in front of a gateway. The proxy limits the bytes per second to readers.
func narrow(t *testing.T, gateway string, rate int) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	carry := func(reader net.Conn) {
		defer reader.Close()
		there := raw(t, gateway)
		defer there.Close()
		running.Go(func() {
			_, _ = io.Copy(there, reader)
			there.Close()
		})
		const ticks = 100
		tick := time.NewTicker(time.Second / ticks)
		defer tick.Stop()
		for {
			if _, err := io.CopyN(reader, there, int64(rate/ticks)); err != nil {
				return
			}
			<-tick.C
		}
	}
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { carry(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		http.DefaultClient.CloseIdleConnections()
		running.Wait()
	})
	return "http://" + ln.Addr().String()
}

// takesSlowly is a reader that receives each body at 10 MB/s, like a reader that decodes while it
// reads.
func takesSlowly(t *testing.T) scene {
	g := harness.Serve(t, heavy(t), dataset, "--cache-size", "256MiB")
	return scene{func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			slowly(ctx, t, g, batchPath(m/11, m%11)+share(36, 0, 1), 10<<20, func() {})
		}
	}, []*harness.Gateway{g}}
}

// manyRows is a rank that requests rows of 20 bytes in a form that differs from the stored one.
func manyRows(t *testing.T) scene {
	var rows strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&rows, "{\"id\":%d,\"text\":\"t%d\"}\n", i, i%7)
	}
	store := harness.Open(t, "dir")
	if err := os.Mkdir(filepath.Join(store.Path, dataset), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(store.Path, dataset, "rows.jsonl"), rows.String())
	harness.MustRun(t, store, "index", store.Dataset(dataset), "--chunk-size", "64KiB")
	g := serve(t, store)
	return scene{drains(g, 5, "?batch_size=20000&shuffle=full&format=arrow"), []*harness.Gateway{g}}
}

// onlyRead is a rank that reads batches from memory and computes nothing.
func onlyRead(t *testing.T) scene {
	g := harness.Serve(t, heavy(t), dataset, "--cache-size", "256MiB")
	return scene{drains(g, 11, share(36, 0, 1)), []*harness.Gateway{g}}
}

// restsFor is two ranks, one of which pauses after its first batches.
func restsFor(t *testing.T, rest time.Duration) scene {
	g := inMemory(t)
	rests := func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			_, _ = g.Try(ctx, batchPath(m/200, m%200)+share(2, 1, 2))
			if pause(ctx, think); m == 10 {
				pause(ctx, rest)
			}
		}
	}
	return scene{together(trains(g, 200, think, share(2, 0, 2)), rests), []*harness.Gateway{g}}
}

// inStep is four ranks that wait for one another after each batch. One rank computes ten times as
// long as the others.
func inStep(t *testing.T) scene {
	g := inMemory(t)
	return scene{func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			var step sync.WaitGroup
			for rank := range 4 {
				step.Go(func() {
					_, _ = g.Try(ctx, batchPath(m/50, m%50)+share(8, rank, 4))
					pause(ctx, think/2)
					if rank == 2 {
						pause(ctx, 5*think)
					}
				})
			}
			step.Wait()
		}
	}, []*harness.Gateway{g}}
}

// readAhead is four ranks in step. Each reads up to eight batches ahead, like a data loader. One
// rank takes three times as long as the others to decode a batch, which is longer than a step.
func readAhead(t *testing.T) scene {
	const ranks, ahead = 4, 8
	g := inMemory(t)
	return scene{func(ctx context.Context) {
		var all sync.WaitGroup
		defer all.Wait()
		var decoded [ranks]chan struct{}
		for rank := range ranks {
			decoded[rank] = make(chan struct{}, ahead)
			all.Go(func() {
				for m := 0; ctx.Err() == nil; m++ {
					_, _ = g.Try(ctx, batchPath(m/50, m%50)+share(8, rank, ranks))
					pause(ctx, think)
					if rank == 2 {
						pause(ctx, 2*think)
					}
					select {
					case decoded[rank] <- struct{}{}:
					case <-ctx.Done():
					}
				}
			})
		}
		for ctx.Err() == nil { // a step begins when all ranks have a batch
			for _, batches := range decoded {
				select {
				case <-batches:
				case <-ctx.Done():
				}
			}
			pause(ctx, think)
		}
	}, []*harness.Gateway{g}}
}

// hasEnded is a job that computes, and a second job that read as fast as it could and has ended.
func hasEnded(t *testing.T) scene {
	g := inMemory(t)
	ended := func(ctx context.Context) {
		short, stop := context.WithTimeout(ctx, 20*think)
		defer stop()
		drains(g, 25, share(16, 0, 1)+"&seed=7")(short)
	}
	return scene{together(ended, trains(g, 25, 4*think, share(16, 0, 1))), []*harness.Gateway{g}}
}
