package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/shuffle"
)

// Cluster is one gateway's knowledge of the members of its cluster. It is safe for concurrent use.
type Cluster struct {
	cfg     Config
	started time.Time

	now      atomic.Pointer[snapshot] // the owners of chunks
	building sync.Mutex               // held while a snapshot is built; mu may be locked meanwhile
	troubles []string                 // the faults that were logged last; guarded by building

	mu       sync.Mutex // guards the fields below; held only for lookups and counting, since every Read locks it
	stale    bool       // a new snapshot is due
	rng      *rand.Rand // for jitter, so that gateways started together do not stay synchronized
	contacts map[string]*contact
	start    func(work func(context.Context)) // starts goroutines that Run waits for; nil while Run is not running
	members  map[string]*member
	address  string // the address at which this gateway has found itself; "" until then
	listed   bool   // the discovery has delivered addresses
	ready    bool   // this gateway no longer waits for others: see Awaits
	draining bool
	heirs    map[string][]peer.ChunkList // while this gateway drains: the chunks that each member takes over, by ID
	notes    []logLine                   // log lines to write after mu is unlocked
	hedges   float64                     // credit for hedged questions
	hedged   uint64                      // number of hedged questions
	earned   time.Time                   // when the credit was last increased
	slowest  time.Duration               // recent maximum time of an answer
	prompt   time.Duration               // timeout for a member's first sign of life (see hedge.go)
}

// New returns a cluster with this gateway only. It starts no goroutines.
func New(cfg Config) *Cluster {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", cfg.ID, cfg.Boot)
	c := &Cluster{
		cfg: cfg, started: time.Now(), hedges: hedgeBurst, earned: time.Now(), slowest: loadCold / loadTimes, prompt: promptFloor,
		rng:      rand.New(rand.NewPCG(h.Sum64(), 0)),
		contacts: map[string]*contact{}, members: map[string]*member{}, stale: true,
	}
	c.rebuild()
	return c
}

// Run sends hellos to all found addresses about every ten seconds, until ctx ends.
func (c *Cluster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	c.starting(func(work func(context.Context)) { running.Go(func() { work(ctx) }) })
	ended := make(chan error, 1)
	running.Go(func() { ended <- c.cfg.Discovery.Run(ctx, c.found) })
	defer running.Wait()
	defer c.starting(nil)
	defer cancel()
	forget := time.NewTicker(helloEvery)
	defer forget.Stop()
	wait := time.NewTimer(mostWait)
	defer wait.Stop()
	for {
		select {
		case <-forget.C:
			c.forget()
		case <-wait.C:
			c.stopWaiting()
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				err = errors.New("discovery has ended")
			}
			return fmt.Errorf("cluster %s: find other gateways: %w", c.cfg.Name, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// starting sets the function that starts goroutines, and starts the goroutines of the known
// contacts. If start is nil, no more are started.
func (c *Cluster) starting(start func(work func(context.Context))) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = start
	for _, k := range c.contacts {
		c.greets(k)
	}
}

// Self returns this gateway's hello.
func (c *Cluster) Self() peer.Hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self()
}

func (c *Cluster) self() peer.Hello {
	return peer.Hello{
		Cluster: c.cfg.Name, ID: c.cfg.ID, Boot: c.cfg.Boot,
		Weight: c.cfg.Weight, OrderVersion: shuffle.OrderVersion, Draining: c.draining,
		Serves: distinct(slices.Collect(maps.Keys(c.cfg.Serves))), UpMS: uint64(max(0, time.Since(c.started).Milliseconds())),
	}
}

// Serve replaces the generations that this gateway serves (Config.Serves). The other gateways learn
// of the change at once.
func (c *Cluster) Serve(all map[peer.DatasetGeneration]int) {
	c.mu.Lock()
	defer c.unlock()
	if maps.Equal(c.cfg.Serves, all) {
		return
	}
	c.cfg.Serves, c.stale = all, true
	for _, k := range c.contacts {
		k.awake()
	}
}

// logLine is a log line to be written after the lock is released, since the log's writer may be
// slow.
type logLine struct {
	line  *zerolog.Event
	words string
}

// note queues a log line until the lock is released.
func (c *Cluster) note(line *zerolog.Event, words string) {
	c.notes = append(c.notes, logLine{line, words})
}

// unlock unlocks mu, builds the snapshot if it is stale, and writes the queued log lines.
func (c *Cluster) unlock() {
	if c.stale {
		c.mu.Unlock()
		c.rebuild()
		c.mu.Lock()
	}
	lines := c.notes
	c.notes = nil
	c.mu.Unlock()
	for _, n := range lines {
		n.line.Msg("cluster: " + n.words)
	}
}
