package clustersim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Report is the result of a run.
type Report struct {
	Wrong  []string       // the violations found; empty: none
	Ended  map[string]int // number of requests by outcome, and of bodies by tier
	Took   []time.Duration
	Steps  []time.Duration // of ranks in step: from the requests for a batch to the last response; with Ahead, from step to step
	Passed []Passed        // bytes read by the end of each epoch, if ranks are in step
	Chunks float64         // chunks read from the store, as a sum of fractions
	Late   float64         // chunks read after Mark
	Strays float64         // chunks read after Mark that were not lost
	Lost   int             // chunks that were in the memory of killed processes
	Refill time.Duration   // time from Mark to the last store read
	Needed float64         // unavoidable chunk reads: one per chunk needed, and one more per loss
	Stats  datapath.Stats
	Asked  map[int]int // store requests by machine
	Events []history.Event
}

// Passed holds the bytes that a job had read by the end of an epoch.
type Passed struct {
	Store int64  // bytes read from the store
	Peers uint64 // bytes between gateways
}

// run is one history being played.
type run struct {
	history  *History
	plan     *shuffle.Plan
	net      *network
	store    depot
	books    *books
	clients  *clients
	machines []*machine
	began    time.Time
	step     *barrier       // nil: each rank proceeds independently
	work     sync.WaitGroup // exiting processes, and faults
	ahead    time.Time      // time when the last step ended; only barriers write it

	mu     sync.Mutex // guards the fields below
	done   bool
	report *Report
	short  []bool // epochs with a batch that was refused as too large
}

// Run plays a history to its end. It must run in a bubble of testing/synctest.
func Run(ctx context.Context, h *History) *Report {
	r := newRun(h, stock(h))
	r.play(ctx)
	if n := r.store.InFlight(); n != 0 {
		r.wrong("left over: %d store reads", n)
	}
	return r.report
}

// RunBoth plays two histories concurrently that share data and store: two jobs with one cluster
// each.
func RunBoth(ctx context.Context, a, b *History) (ofA, ofB *Report) {
	shared := stock(a)
	first, second := newRun(a, shared), newRun(b, shared)
	var other sync.WaitGroup
	other.Go(func() { first.play(ctx) })
	second.play(ctx)
	other.Wait()
	return first.report, second.report
}

// depot is a store, with a limit on concurrent requests.
type depot struct {
	*memstore.Store
	line chan struct{}
}

// storeLine is the number of requests that a store serves concurrently.
const storeLine = 256

func stock(h *History) depot {
	s := depot{memstore.New(), make(chan struct{}, storeLine)}
	h.Data.stock(s.Store)
	s.SetFault(h.usual())
	return s
}

func newRun(h *History, s depot) *run {
	r := &run{
		history: h, net: newNetwork(h.Link), store: s, books: newBooks(h.Data), began: time.Now(),
		report: &Report{Ended: map[string]int{}}, clients: newClients(h.Data), short: make([]bool, h.Epochs),
	}
	if h.Card > 0 {
		for i := range h.Gateways {
			r.net.cards[i] = &card{rate: h.Card}
		}
		r.net.cards[theStore] = &card{rate: h.StoreCard}
	}
	return r
}

func (r *run) play(ctx context.Context) {
	plan, err := shuffle.NewPlan(r.history.Params, r.history.Data.Index.First())
	if err != nil {
		r.wrong("plan: %v", err)
		return
	}
	r.plan = plan
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.boot(ctx)
	ranks := r.ranks(ctx)
	r.befall(ctx)
	ranks.Wait()
	r.mu.Lock()
	r.done = true
	r.mu.Unlock()
	r.net.heal()
	cancel()
	for _, m := range r.machines {
		m.kill(false)
	}
	r.work.Wait()
	r.judge()
}

// settle is the time that gateways run before the first read, so that they have found one another.
const settle = 3 * time.Second

// boot creates the machines, and starts those that run from the beginning.
func (r *run) boot(ctx context.Context) {
	for i, g := range r.history.Gateways {
		m := &machine{run: r, number: i, id: fmt.Sprintf("gw%d", i), address: fmt.Sprintf("10.0.0.%d:7946", i+1), set: g, clock: g.Clock}
		r.machines = append(r.machines, m)
	}
	for _, m := range r.machines {
		m.view.all = r.machines
		if m.set.Joins == 0 {
			m.start(ctx)
			continue
		}
		r.work.Go(func() {
			if objstore.Sleep(ctx, settle+m.set.Joins) == nil {
				m.start(ctx)
			}
		})
	}
	_ = objstore.Sleep(ctx, settle)
	r.began = time.Now()
	r.ahead = r.began
	if r.history.Mark > 0 {
		r.books.mark = r.began.Add(r.history.Mark)
	}
}

// ranks starts the readers.
func (r *run) ranks(ctx context.Context) *sync.WaitGroup {
	var all sync.WaitGroup
	if r.history.InStep {
		r.step = newBarrier(len(r.history.Ranks))
	}
	for i, set := range r.history.Ranks {
		rank := &reader{run: r, set: set, rank: uint64(i), near: set.Near, rnd: rand.New(rand.NewPCG(r.history.Seed, 100+uint64(i)))}
		all.Go(func() { rank.read(ctx) })
	}
	return &all
}

func (r *run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

func (r *run) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace("WRONG: "+format, args...)
	r.report.Wrong = append(r.report.Wrong, fmt.Sprintf("%v: ", time.Since(r.began))+fmt.Sprintf(format, args...))
}

func (r *run) ended(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Ended[kind]++
}

// deliver records that a rank has received its share of a batch.
func (r *run) deliver(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Took = append(r.report.Took, took)
}

// stepped records that all ranks have a batch.
func (r *run) stepped(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Steps = append(r.report.Steps, took)
}

// passed records that all ranks have the last batch of an epoch.
func (r *run) passed() {
	p := Passed{Store: r.books.bytes()}
	for _, m := range r.machines {
		if now := m.now(); now != nil {
			p.Peers += now.path.Stats().PeerBytes
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Passed = append(r.report.Passed, p)
}

// refused records that an epoch will be incomplete, because a batch is larger than a budget.
func (r *run) refused(epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short[epoch] = true
}

// count adds the statistics of a process that has exited.
func (r *run) count(s datapath.Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.report.Stats
	t.PeerReads += s.PeerReads
	t.PeerBytes += s.PeerBytes
	t.PeerFailed += s.PeerFailed
	t.PeerLies += s.PeerLies
	t.PeerServedReads += s.PeerServedReads
	t.PeerServedBytes += s.PeerServedBytes
	t.CarriedHits += s.CarriedHits
	t.FormerChunks += s.FormerChunks
	t.StoreReads += s.StoreReads
	t.StoreBytes += s.StoreBytes
}

// judge makes the checks that are only possible at the end.
func (r *run) judge() {
	for e, short := range r.short {
		if !short {
			r.clients.log.Complete("job", jobOf(uint64(e)), 0)
		}
	}
	if err := r.clients.log.Err(); err != nil {
		r.wrong("%v", err)
	}
	r.report.Events = r.clients.events
	r.report.Asked = r.books.requests
	most, chunks := r.books.whole(r.books.chunks)
	r.report.Chunks = chunks
	_, r.report.Late = r.books.whole(r.books.late)
	r.report.Strays = r.books.strays()
	r.report.Lost, r.report.Refill = len(r.books.lost), r.books.last.Sub(r.books.mark)
	r.report.Needed = float64(r.books.needed())
	if r.history.Kind == Healthy && !r.history.Data.byReads() {
		r.thrift(most, chunks)
	}
}

// thrift checks that the store serves nothing twice if there are no faults and memory can hold all
// data.
func (r *run) thrift(most, chunks float64) {
	n := float64(r.history.Data.Index.Chunks())
	switch r.history.Params.Shuffle {
	case shuffle.Full: // samples are read individually
	case shuffle.Slot: // a chunk in two lanes is read twice
		if limit := n + float64(r.history.Params.Window) - 1; chunks > limit {
			r.wrong("%.2f chunks were read, want at most %v", chunks, limit)
		}
	default:
		if most > 1 {
			r.wrong("a chunk was read %.2f times, want once", most)
		}
	}
}

// machineAt returns the machine at an address, or nil.
func (r *run) machineAt(address string) *machine {
	for _, m := range r.machines {
		if m.address == address {
			return m
		}
	}
	return nil
}
