package replay

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// trace is a list of uses with a position that a policy can read.
type trace struct {
	uses  []int
	sizes []int64 // nil: all sizes are 1
	now   int
}

func (t *trace) size(k int) int64 {
	if t.sizes == nil {
		return 1
	}
	return t.sizes[k]
}

func (t *trace) all() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i, k := range t.uses {
			if t.now = i + 1; !yield(k, t.size(k)) {
				return
			}
		}
	}
}

// plan returns the policy with knowledge of the whole trace.
func (t *trace) plan() Policy[int] {
	return Plan(func(k int) int64 {
		for i := t.now; i < len(t.uses); i++ {
			if t.uses[i] == k {
				return int64(i)
			}
		}
		return chunkcache.Never
	})
}

// best finds the minimum that any choice of victims must load, by trying all choices. Every chunk
// that is used must be loaded.
type best struct {
	trace
	capacity int64
	cost     func(k int) int64
	known    map[[2]int]int64
}

func (b *best) sum(set int) (n int64) {
	for s := uint(set); s != 0; s &= s - 1 {
		n += b.size(bits.TrailingZeros(s))
	}
	return n
}

func (b *best) from(i, set int) int64 {
	if i == len(b.uses) {
		return 0
	}
	k := b.uses[i]
	if set>>k&1 == 1 {
		return b.from(i+1, set)
	}
	if n, ok := b.known[[2]int{i, set}]; ok {
		return n
	}
	least := int64(math.MaxInt64)
	for kept := set; ; kept = (kept - 1) & set { // every subset
		if b.sum(kept)+b.size(k) <= b.capacity {
			least = min(least, b.cost(k)+b.from(i+1, kept|1<<k))
		}
		if kept == 0 {
			break
		}
	}
	b.known[[2]int{i, set}] = least
	return least
}

func random(rnd *rand.Rand, sizes bool) trace {
	keys := 3 + rnd.IntN(4)
	t := trace{uses: make([]int, 6+rnd.IntN(10))}
	for i := range t.uses {
		t.uses[i] = rnd.IntN(keys)
	}
	if sizes {
		for range keys {
			t.sizes = append(t.sizes, 1+rnd.Int64N(4))
		}
	}
	return t
}

// many returns the number of traces that a test tries.
func many() int {
	if os.Getenv("MILLRACE_LONG") != "" {
		return 1_000_000
	}
	return 10_000
}

func TestPlanIsTheBestThereIs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	apart := 0
	for range many() {
		tr := random(rnd, false)
		capacity := 1 + rnd.Int64N(4)
		b := best{trace: tr, capacity: capacity, cost: func(int) int64 { return 1 }, known: map[[2]int]int64{}}
		want := int(b.from(0, 0))
		if got := Replay(tr.plan(), capacity, tr.all()); got.Loads != want || got.Hits+got.Loads != len(tr.uses) {
			t.Fatalf("%v, capacity %d: got %+v, want %d loads", tr.uses, capacity, got, want)
		}
		if got := Replay(LRU[int], capacity, tr.all()); got.Loads < want {
			t.Fatalf("%v, capacity %d: lru loads %d, fewer than the best, %d", tr.uses, capacity, got.Loads, want)
		} else if got.Loads > want {
			apart++
		}
	}
	if apart < many()/4 {
		t.Errorf("got %d of %d traces on which lru loads more, want a quarter at least: they tell nothing", apart, many())
	}
}

// TestPlanWithUnequalChunks measures how far the policy is from the minimum. If chunk sizes differ,
// the furthest next use is not always the best victim.
func TestPlanWithUnequalChunks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	names := []string{"loads", "bytes loaded"}
	var got, want, worst [2]float64
	for range many() {
		tr := random(rnd, true)
		capacity := 4 + rnd.Int64N(6)
		r := Replay(tr.plan(), capacity, tr.all())
		for i, n := range []int64{int64(r.Loads), r.LoadBytes} {
			b := best{trace: tr, capacity: capacity, cost: []func(int) int64{func(int) int64 { return 1 }, tr.size}[i], known: map[[2]int]int64{}}
			least := b.from(0, 0)
			if n < least {
				t.Fatalf("%v of %v, capacity %d: got %d %s, fewer than the least, %d", tr.uses, tr.sizes, capacity, n, names[i], least)
			}
			got[i], want[i] = got[i]+float64(n), want[i]+float64(least)
			worst[i] = max(worst[i], float64(n)/float64(least)-1)
		}
	}
	for i, name := range names {
		mean := got[i]/want[i] - 1
		t.Logf("%s beyond the least possible: %.2f %% on average, %.0f %% at worst", name, 100*mean, 100*worst[i])
		if mean == 0 || mean > 0.03 || worst[i] > 1 {
			t.Errorf("%s: got %.3f beyond the least on average and %.2f at worst, want 0.03 and 1 at most", name, mean, worst[i])
		}
	}
}

// epochs is a trace that uses each of n chunks once per epoch, in a new order each time.
type epochs struct {
	orders [][]int
	places [][]int // position of each chunk in each order
	now    int
}

func newEpochs(n, count int) *epochs {
	rnd := rand.New(rand.NewPCG(5, uint64(n)))
	e := &epochs{}
	for range count {
		order, places := rnd.Perm(n), make([]int, n)
		for i, k := range order {
			places[k] = i
		}
		e.orders, e.places = append(e.orders, order), append(e.places, places)
	}
	return e
}

// next returns a chunk's next use, with knowledge of the current epoch's order and that of the
// following epoch.
func (e *epochs) next(k int) int64 {
	n := len(e.orders[0])
	for epoch := e.now / n; epoch < min(e.now/n+2, len(e.orders)); epoch++ {
		if at := epoch*n + e.places[epoch][k]; at >= e.now {
			return int64(at)
		}
	}
	return chunkcache.Never
}

func (e *epochs) policies() map[string]Policy[int] {
	return map[string]Policy[int]{
		"lru": LRU[int], "keep": Keep[int], "plan": Plan(e.next),
	}
}

// TestHitsUnderAFreshOrderEachEpoch compares hit ratios from the second epoch on, under a uniform
// order, with those from an independent simulation.
func TestHitsUnderAFreshOrderEachEpoch(t *testing.T) {
	const n, count = 20_000, 3
	e := newEpochs(n, count)
	all := func(yield func(int, int64) bool) {
		for e.now = 0; e.now < n*count; {
			k := e.orders[e.now/n][e.now%n]
			if e.now++; !yield(k, 1) {
				return
			}
		}
	}
	for i, c := range []float64{.10, 0.35, 0.50, 0.65, .80} {
		want := map[string]float64{"lru": []float64{.005, 0.070, 0.154, 0.283, .480}[i], "keep": c, "plan": c}
		for name, policy := range e.policies() {
			got := float64(Replay(policy, int64(c*n), all).Hits) / (n * (count - 1)) // the first epoch has no hits
			t.Logf("%s, a cache of %.2f of the data: a hit ratio of %.3f", name, c, got)
			if math.Abs(got-want[name]) > 0.01 {
				t.Errorf("%s, a cache of %.2f of the data: got a hit ratio of %.3f, want %.3f", name, c, got, want[name])
			}
		}
	}
}

// TestLoadsUnderAWindowOrder replays a window order, which pins two windows of chunks at a time:
// the one in use and the one being fetched. The rest of the memory serves the next epoch.
func TestLoadsUnderAWindowOrder(t *testing.T) {
	const n, count, capacity, window = 960, 4, 400, 48
	for _, name := range []string{"keep", "plan"} {
		t.Run(name, func(t *testing.T) {
			e := newEpochs(n, count)
			s := e.policies()[name](capacity)
			loads := make([]int, count)
			fetch := func(w int) {
				for i := w * window; i < min((w+1)*window, n*count); i++ {
					k := e.orders[i/n][i%n]
					if s.Lease(k) {
						continue
					}
					s.Bring(k, 1, 1)
					loads[i/n]++
				}
			}
			fetch(0)
			for w := range n * count / window {
				fetch(w + 1)
				for ; e.now < (w+1)*window; e.now++ {
				}
				for i := w * window; i < (w+1)*window; i++ {
					s.Release(e.orders[i/n][i%n])
				}
			}
			if loads[0] != n {
				t.Errorf("got %d loads in the first epoch, want %d", loads[0], n)
			}
			for epoch, got := range loads[1:] {
				if want := n - (capacity - 2*window); got > want || got < n-capacity {
					t.Errorf("epoch %d: got %d loads, want %d to %d", epoch+1, got, n-capacity, want)
				}
			}
			t.Log("loads of each epoch", loads)
		})
	}
}

func ExampleReplay() {
	uses := func(yield func(string, int64) bool) {
		for _, k := range []string{"a", "b", "c", "a", "b", "c"} {
			if !yield(k, 1) {
				return
			}
		}
	}
	fmt.Println(Replay(LRU[string], 2, uses))
	fmt.Println(Replay(Keep[string], 2, uses))
	// Output:
	// {0 6 6}
	// {1 5 5}
}
