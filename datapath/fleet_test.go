package datapath

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// fleet is a set of gateways that read one dataset from one store and query each other in memory.
type fleet struct {
	*dataset
	members []*member
	plan    *shuffle.Plan
}

// member is one gateway, with its view of the other gateways.
type member struct {
	fleet  *fleet
	number int
	path   *Path
	source *Source

	view   atomic.Uint64
	mu     sync.Mutex // guards the fields below
	gone   map[int]bool
	former func(c peer.Chunk) string
	fault  func(to int, q *peer.Query) (wireFault, error)
	lied   []string
	asked  []peer.Query
}

// wireFault is a fault of an answer in transit.
type wireFault struct {
	delay time.Duration
	spoil func(q *peer.Query, dst [][]byte)
	query func(q *peer.Query)
}

func name(n int) string { return fmt.Sprintf("gateway-%d", n) }

// newFleet starts n gateways with a budget of total each, and stops them at the end of the test.
// plan may be nil if no plan is read.
func newFleet(tb testing.TB, d *dataset, plan *shuffle.Plan, n int, cfg Config, total int64) *fleet {
	tb.Helper()
	f := &fleet{dataset: d, plan: plan}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range n {
		m := &member{fleet: f, number: i, gone: map[int]bool{}}
		m.view.Store(1)
		f.members = append(f.members, m)
	}
	for _, m := range f.members {
		own := cfg
		own.Budget, own.Peers, own.Debug = budget.New(total, 2*time.Second), m, true
		if m.number > 0 {
			own.Disk = nil // one gateway uses a disk
		}
		m.path = New(own)
		m.source = m.path.Open(d.index, d.store, "set/")
		m.source.Share("set")
		running.Go(func() { _ = m.path.Run(ctx) })
	}
	tb.Cleanup(func() {
		stop()
		running.Wait()
		for _, m := range f.members {
			finish(tb, m.path)
		}
	})
	return f
}

// lose marks a member as unavailable.
func (m *member) lose(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[n] = true
	m.view.Add(1)
}

// find marks a member as available again.
func (m *member) find(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, n)
	m.view.Add(1)
}

func (m *member) breaks(fault func(to int, q *peer.Query) (wireFault, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// owner returns the number of the member that owns a chunk: the one with the highest hash.
func (m *member) owner(c peer.Chunk, asked ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := maps.Clone(m.gone)
	for i := range m.fleet.members {
		if slices.Contains(asked, name(i)) {
			gone[i] = true
		}
	}
	best, highest := -1, uint64(0)
	for i := range m.fleet.members {
		h := sha256.Sum256(fmt.Appendf(c.Digest[:], "%d", i))
		if v := binary.LittleEndian.Uint64(h[:]); !gone[i] && (best < 0 || v > highest) {
			best, highest = i, v
		}
	}
	return best
}

func (m *member) Owner(c peer.Chunk, asked ...string) string {
	if n := m.owner(c, asked...); n >= 0 && n != m.number {
		return name(n)
	}
	return ""
}

func (m *member) Former(c peer.Chunk) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.former == nil {
		return ""
	}
	return m.former(c)
}

func (m *member) Share(string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return 1 / float64(max(len(m.fleet.members)-len(m.gone), 1))
}

func (m *member) View() uint64 { return m.view.Load() }

func (m *member) Lied(member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lied = append(m.lied, member)
}

func (m *member) lies() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.lied)
}

func (m *member) questions() []peer.Query {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

type answering struct{}

var errForwarded = errors.New("a question was asked on")

// Read sends a query to a member, and if that fails, calls instead, which asks the next ones.
func (m *member) Read(ctx context.Context, to string, q *peer.Query, dst [][]byte, instead Instead) error {
	err := m.carry(ctx, to, q, dst)
	if err != nil && instead != nil && instead(ctx, false) == nil {
		return fmt.Errorf("%w: %w", peer.ErrOutdone, err)
	}
	return err
}

// carry delivers a query to another member as a connection would: checksums are not transferred,
// and the bytes are copied.
func (m *member) carry(ctx context.Context, to string, q *peer.Query, dst [][]byte) error {
	if ctx.Value(answering{}) != nil && !q.Cached {
		panic(errForwarded)
	}
	text, err := q.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	read, err := peer.ParseQuery(text)
	if err != nil {
		panic(err)
	}
	sent := *read
	var other *member
	for i := range m.fleet.members {
		if name(i) == to {
			other = m.fleet.members[i]
		}
	}
	m.mu.Lock()
	m.asked = append(m.asked, sent)
	fault := m.fault
	m.mu.Unlock()
	var f wireFault
	if fault != nil {
		var err error
		if f, err = fault(other.number, &sent); err != nil {
			return err
		}
	}
	if f.query != nil {
		f.query(&sent)
	}
	select {
	case <-time.After(f.delay):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r := sent.Reader; r != nil && m.fleet.plan != nil && r.Params == m.fleet.plan.Params() {
		at := r.Cursor
		at.Plan, at.Epoch = m.fleet.plan, m.fleet.plan.Epoch(r.Epoch)
		other.path.Heard(sent.Dataset, sent.Generation, at, r.Think)
	}
	body, err := other.path.answer(context.WithValue(ctx, answering{}, true), &sent)
	if err != nil {
		return err
	}
	defer body.Close()
	if got, want := len(body.Segments), len(dst); got != want {
		return fmt.Errorf("got %d segments, want %d", got, want)
	}
	for i := range dst {
		if copy(dst[i], body.Segments[i]) != len(dst[i]) || len(dst[i]) != len(body.Segments[i]) {
			return fmt.Errorf("segment %d: got %d bytes, want %d", i, len(body.Segments[i]), len(dst[i]))
		}
	}
	if f.spoil != nil {
		f.spoil(q, dst)
	}
	return nil
}

// readRank reads the share of one rank of an epoch at one gateway, and checks every byte.
func (f *fleet) readRank(ctx context.Context, tb testing.TB, m *member, epoch, batch, rank, worldSize uint64) error {
	tb.Helper()
	e := f.plan.Epoch(epoch)
	batching := shuffle.Batching{Samples: f.plan.Samples(), BatchSize: batch}
	for n := range (f.plan.Samples() + batch - 1) / batch {
		share := batching.Share(n, rank, worldSize)
		at := shuffle.Cursor{
			Plan: f.plan, Epoch: e, First: n * batch, End: min((n+1)*batch, f.plan.Samples()), BatchSize: batch, Rank: rank, WorldSize: worldSize,
		}
		chunks := f.ranges(tb, e.Append(nil, share.First, share.First+share.Count))
		body, err := m.source.Read(ctx, at, chunks)
		if err != nil {
			return fmt.Errorf("epoch %d batch %d rank %d: %w", epoch, n, rank, err)
		}
		if err := f.check(chunks, body); err != nil {
			return fmt.Errorf("epoch %d batch %d rank %d: %w", epoch, n, rank, err)
		}
		body.Close()
	}
	return nil
}

// readEpoch reads an epoch with one rank per gateway, all concurrently.
func (f *fleet) readEpoch(tb testing.TB, epoch, batch uint64) {
	tb.Helper()
	var ranks sync.WaitGroup
	for r, m := range f.members {
		ranks.Go(func() {
			if err := f.readRank(tb.Context(), tb, m, epoch, batch, uint64(r), uint64(len(f.members))); err != nil {
				tb.Error(err)
			}
		})
	}
	ranks.Wait()
}

// stats returns the sums of the counters of all gateways.
func (f *fleet) stats() (sum Stats) {
	for _, m := range f.members {
		s := m.path.Stats()
		sum.StoreReads += s.StoreReads
		sum.StoreBytes += s.StoreBytes
		sum.RangeReads += s.RangeReads
		sum.PeerReads += s.PeerReads
		sum.PeerBytes += s.PeerBytes
		sum.PeerFailed += s.PeerFailed
		sum.PeerLies += s.PeerLies
		sum.PeerServedReads += s.PeerServedReads
		sum.PeerServedBytes += s.PeerServedBytes
		sum.CarriedHits += s.CarriedHits
		sum.CarriedBytes += s.CarriedBytes
		sum.FormerChunks += s.FormerChunks
		sum.Loads += s.Loads
	}
	return sum
}

// bytes returns the total length of all chunks.
func (d *dataset) bytes() (n uint64) {
	for i := range d.index.Chunks() {
		n += uint64(d.index.Chunk(i).Length)
	}
	return n
}
