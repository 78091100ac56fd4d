package chunkcache

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/budget"
)

// In one goroutine, residency, counters and bytes are compared with those of a naive list, with and
// without readers.
func TestCacheAgainstModel(t *testing.T) {
	for name, known := range map[string]bool{"without readers": false, "with readers": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newModel(t, known)
				t.Repeat(map[string]func(*rapid.T){"acquire": m.acquire, "close": m.close, "": m.check})
				m.end(t)
			})
		})
	}
}

const modelSize = 1000 // size of every chunk

// model is a cache with its expected content. The due time of a chunk changes when its last lease
// is closed.
type model struct {
	cache  *Cache[int]
	budget *budget.Budget
	slots  int
	known  bool // the table returns due times
	open   []modelLease
	idle   []int       // in the order in which their last leases were closed
	refs   map[int]int // leases of each chunk in memory
	due    map[int]int64

	hits, loads uint64
	evicted     []int
	want        []int // evicted
}

type modelLease struct {
	l    *Leases[int]
	keys []int
}

func newModel(t *rapid.T, known bool) *model {
	slots := rapid.IntRange(1, 6).Draw(t, "slots")
	m := &model{
		budget: budget.New(int64(slots)*Cost(modelSize), 0), slots: slots,
		refs: map[int]int{}, due: map[int]int64{},
	}
	var due func(int) int64
	if known {
		due = func(k int) int64 { return Soon + 1 + m.due[k] }
	}
	m.known, m.cache = known, opened(t, Config{Budget: m.budget, Debug: true}, due)
	tableOf(m.cache).of.Gone = func(k int, _ bool) { m.evicted = append(m.evicted, k) }
	return m
}

// drop removes a chunk from the idle list.
func (m *model) drop(k int) {
	m.idle = slices.DeleteFunc(m.idle, func(o int) bool { return o == k })
}

// rest adds a chunk to the idle list.
func (m *model) rest(k int) {
	m.idle = append(m.idle, k)
}

// evict removes the idle chunk that should be evicted first.
func (m *model) evict() {
	first := m.idle[0]
	for _, k := range m.idle {
		if m.known && m.due[k] > m.due[first] {
			first = k
		}
	}
	m.drop(first)
	delete(m.refs, first)
	m.want = append(m.want, first)
}

func (m *model) acquire(t *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 4, rapid.ID[int]).Draw(t, "keys")
	req := asking{Request: Request[int]{Load: load, Due: Soon, Group: func(missing []int) [][]int { return [][]int{missing} }}}
	var found, missing []int
	pinned := map[int]bool{}
	for _, k := range keys {
		req.Wants = append(req.Wants, Chunk[int]{Key: k, Size: modelSize})
		if _, ok := m.refs[k]; ok {
			found = append(found, k)
			pinned[k] = true
		} else {
			missing = append(missing, k)
		}
	}
	for k, n := range m.refs {
		if n > 0 {
			pinned[k] = true
		}
	}
	fits := len(missing) == 0 || len(pinned)+len(missing) <= m.slots
	l, err := acquire(context.Background(), m.cache, req)
	if (err == nil) != fits || err != nil && !errors.Is(err, ErrNoRoom) {
		t.Fatalf("acquire %v with %v in memory and %d slots: got %v, want room=%v", keys, m.refs, m.slots, err, fits)
	}
	for _, k := range found {
		m.drop(k)
	}
	if err != nil { // a found value becomes the newest
		for _, k := range found {
			if m.refs[k] == 0 {
				m.rest(k)
			}
		}
		return
	}
	m.hits, m.loads = m.hits+uint64(len(found)), m.loads+uint64(len(missing))
	for len(m.refs)+len(missing) > m.slots {
		m.evict()
	}
	for i, k := range keys {
		m.refs[k]++
		if !bytes.Equal(l.Bytes(i), content(k, modelSize)) {
			t.Fatalf("key %d: other bytes than loaded", k)
		}
	}
	m.open = append(m.open, modelLease{l, keys})
}

func (m *model) close(t *rapid.T) {
	if len(m.open) == 0 {
		t.Skip("no lease")
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "i")
	for j, k := range m.open[i].keys {
		if !bytes.Equal(m.open[i].l.Bytes(j), content(k, modelSize)) {
			t.Fatalf("key %d changed while leased", k)
		}
		if m.refs[k]--; m.refs[k] == 0 {
			m.due[k] = rapid.Int64Range(0, 5).Draw(t, "due")
			m.rest(k)
		}
	}
	m.open[i].l.Close()
	m.open = slices.Delete(m.open, i, i+1)
}

func (m *model) check(t *rapid.T) {
	got := m.cache.Stats()
	if got.Hits != m.hits || got.Loads != m.loads || got.Misses != m.loads || int(got.Chunks) != len(m.refs) {
		t.Fatalf("got %+v, want %d hits, %d loads, %d chunks", got, m.hits, m.loads, len(m.refs))
	}
	for k := range m.refs {
		if !resident(m.cache, k) {
			t.Fatalf("key %d is gone, want %v", k, m.refs)
		}
	}
	if !slices.Equal(m.evicted, m.want) {
		t.Fatalf("got %v evicted, want %v", m.evicted, m.want)
	}
}

func (m *model) end(t *rapid.T) {
	for _, o := range m.open {
		o.l.Close()
	}
	m.cache.Drop()
	if got := m.budget.InUse(); got != 0 {
		t.Fatalf("got %d bytes left in the budget, want 0", got)
	}
}
