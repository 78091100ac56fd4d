package chunkcache

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// held is what the model knows of a chunk that could go.
type held struct {
	key      int
	size     int64
	admitted uint64
	added    int
	next     int64 // at its last evaluation
}

// contract is a policy and what it promises: which of two chunks goes first.
type contract struct {
	name   string
	make   func(next func(int) int64) Policy[int]
	before func(a, b held) bool
}

func contracts() []contract {
	return []contract{
		{
			"lru",
			func(func(int) int64) Policy[int] { return NewLRU[int]() },
			func(a, b held) bool { return a.added < b.added },
		},
		{
			"keep",
			func(func(int) int64) Policy[int] { return NewKeep[int]() },
			func(a, b held) bool { return a.admitted > b.admitted },
		},
		{
			"plan", NewPlan[int],
			func(a, b held) bool { return a.next > b.next || a.next == b.next && a.added < b.added },
		},
	}
}

// programs is a policy beside its model. Next uses change when a chunk is added, and may come nearer at any time.
type programs struct {
	contract
	policy   Policy[int]
	there    map[int]held
	next     map[int]int64
	admitted map[int]uint64 // of chunks in memory, leased ones too
	count    int
}

func (p *programs) first() (held, bool) {
	var best held
	for i, k := range slices.Sorted(maps.Keys(p.there)) {
		if h := p.there[k]; i == 0 || p.before(h, best) {
			best = h
		}
	}
	return best, len(p.there) > 0
}

func (p *programs) add(t *rapid.T) {
	k := rapid.IntRange(0, looks-1).Draw(t, "key")
	if _, ok := p.there[k]; ok {
		defer func() {
			if recover() == nil {
				t.Fatalf("key %d was added twice without a panic", k)
			}
		}()
		p.policy.Add(k, 1, 1)
		return
	}
	p.count++
	if p.admitted[k] == 0 {
		p.admitted[k] = uint64(p.count)
	}
	p.next[k] = rapid.OneOf(rapid.Int64Range(0, 20), rapid.Just(int64(Never))).Draw(t, "next")
	h := held{k, rapid.Int64Range(1, 9).Draw(t, "size"), p.admitted[k], p.count, p.next[k]}
	p.there[k] = h
	p.policy.Add(k, h.size, h.admitted)
}

func (p *programs) remove(t *rapid.T) {
	k := rapid.IntRange(0, looks-1).Draw(t, "key") // there or not
	p.policy.Remove(k)
	delete(p.there, k)
}

func (p *programs) evict(t *rapid.T) {
	k, ok := p.policy.Victim()
	if !ok {
		t.Skip("nothing there")
	}
	p.policy.Remove(k)
	delete(p.there, k)
	delete(p.admitted, k)
}

func (p *programs) nearer(t *rapid.T) {
	for _, k := range slices.Sorted(maps.Keys(p.there)) {
		h := p.there[k]
		h.next = p.next[k] - min(p.next[k], rapid.Int64Range(0, 9).Draw(t, "by"))
		p.next[k], p.there[k] = h.next, h
	}
}

func (p *programs) check(t *rapid.T) {
	want, any := p.first()
	for range 2 { // asking changes nothing
		if got, ok := p.policy.Victim(); ok != any || any && got != want.key {
			t.Fatalf("%s: got victim %d, %v, want %d, %v of %v", p.name, got, ok, want.key, any, p.there)
		}
	}
	var sum int64
	for _, h := range p.there {
		sum += h.size
	}
	if got := p.policy.Bytes(); got != sum {
		t.Fatalf("%s: got %d bytes, want %d", p.name, got, sum)
	}
}

// Every policy against a naive model, under any program of calls.
func TestPoliciesAgainstModel(t *testing.T) {
	for _, c := range contracts() {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := &programs{contract: c, there: map[int]held{}, next: map[int]int64{}, admitted: map[int]uint64{}}
				p.policy = c.make(func(k int) int64 { return p.next[k] })
				t.Repeat(map[string]func(*rapid.T){
					"add": p.add, "remove": p.remove, "evict": p.evict, "nearer": p.nearer, "": p.check,
				})
			})
		})
	}
}

// Next uses that change as they like between two refreshes break nothing, and with the next refresh the order is right again.
func TestPlanWhoseFutureChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4*looks).Draw(t, "chunks")
		next := make([]int64, n)
		change := func() {
			for k := range next {
				next[k] = rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Just(int64(Never))).Draw(t, "next")
			}
		}
		policy := NewPlan(func(k int) int64 { return next[k] })
		change()
		for k := range n {
			policy.Add(k, 1, uint64(k+1))
		}
		left := make(map[int]bool, n)
		for k := range n {
			left[k] = true
		}
		for len(left) > 0 {
			change()
			refreshed := rapid.Bool().Draw(t, "refresh")
			if refreshed {
				policy.(refresher).Refresh()
			}
			got, ok := policy.Victim()
			if !ok || !left[got] {
				t.Fatalf("got victim %d, %v, want one of %v", got, ok, left)
			}
			for k := range left {
				if refreshed && (next[k] > next[got] || next[k] == next[got] && k < got) {
					t.Fatalf("got victim %d, next used at %d, want %d: %d", got, next[got], k, next[k])
				}
			}
			policy.Remove(got)
			delete(left, got)
			if got, want := policy.Bytes(), int64(len(left)); got != want {
				t.Fatalf("got %d bytes, want %d", got, want)
			}
		}
		if _, ok := policy.Victim(); ok {
			t.Fatal("got a victim of nothing")
		}
	})
}

// A victim is found by asking about a few chunks, however many there are and whatever became of their next uses.
func TestPlanAsksAboutFew(t *testing.T) {
	const n = 10_000
	asked, now := 0, int64(0)
	policy := NewPlan(func(k int) int64 {
		asked++
		now++
		return math.MaxInt32 - now // each time nearer than all the others
	})
	for k := range n {
		policy.Add(k, 1, uint64(k))
	}
	asked = 0
	for range 100 {
		k, _ := policy.Victim()
		policy.Remove(k)
	}
	if asked > 100*looks {
		t.Errorf("asked about %d chunks for 100 victims, want %d at most", asked, 100*looks)
	}
}
