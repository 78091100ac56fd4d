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

// Cluster is what one gateway knows of those that are one cache with it. It is safe for concurrent use.
type Cluster struct {
	cfg     Config
	started time.Time

	now      atomic.Pointer[snapshot] // who owns what
	building sync.Mutex               // held while a snapshot is made; mu may be taken inside of it
	troubles []string                 // the faults that were logged last; guarded by building

	mu       sync.Mutex // guards all below; it is held for looking up and counting alone, since each Read takes it
	stale    bool       // a new snapshot is due
	rng      *rand.Rand // for jitter: two that start together do not stay in step
	contacts map[string]*contact
	start    func(work func(context.Context)) // starts what Run waits for; nil while Run does not run
	members  map[string]*member
	address  string // at which this gateway has found itself, "" if it has not
	listed   bool   // the discovery has spoken
	ready    bool   // this gateway waits for nobody: see Awaits
	draining bool
	heirs    map[string][]peer.ChunkList // while this gateway drains: what each member is to take over, by ID
	notes    []logLine                   // log lines, written once mu is free
	hedges   float64                     // that may be asked now
	hedged   uint64                      // that were asked
	earned   time.Time                   // when that last grew
	slowest  time.Duration               // that an answer took of late
	prompt   time.Duration               // within which a member gives a sign of life
}

// New returns a cluster of one. It starts nothing.
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

// Run greets whoever is found, and again about every ten seconds, until ctx ends.
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
				err = errors.New("it has ended")
			}
			return fmt.Errorf("cluster %s: find the others: %w", c.cfg.Name, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// starting says how work is started from now on, that of the contacts which are known already too; nil: none is any more.
func (c *Cluster) starting(start func(work func(context.Context))) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = start
	for _, k := range c.contacts {
		c.greets(k)
	}
}

// Self is what this gateway tells the others of itself.
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

// Serve says what this gateway serves from now on, as Config.Serves does. The others hear of it at once.
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

// logLine is a log line that waits until the lock is free, because the log's writer may be slow.
type logLine struct {
	line  *zerolog.Event
	words string
}

// note keeps a log line until the lock is free.
func (c *Cluster) note(line *zerolog.Event, words string) {
	c.notes = append(c.notes, logLine{line, words})
}

// unlock makes the snapshot that is due after what was changed while mu was held, and writes the lines that were kept.
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
