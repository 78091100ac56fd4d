package chunkcache

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// Soon separates the results of Due. If the result is at most Soon, a reader needs the
	// chunk soon; otherwise it needs the chunk later. Within both ranges the result grows with
	// the time until a reader needs the chunk.
	Soon = math.MaxInt64 / 4
	// Never is the result for a chunk that no known reader needs.
	Never = math.MaxInt64
	// AnyDue is a due time for which any idle chunk may be evicted.
	AnyDue = -1
)

// Later returns the due time from which a chunk may be evicted for a prefetch of a chunk with the
// given due time. If the latter is needed soon, the former must be due much later. A smaller margin
// would let readers at almost the same position alternately evict each other's chunks.
func Later(due int64) int64 {
	if due < Soon {
		return min(muchLater*due, Soon-1)
	}
	return due
}

// DueIn returns the due time of a chunk that a reader needs after a time, soon or later. A chunk that
// no reader needs soon is never due if the policy is LRU.
func DueIn(in time.Duration, soon, lru bool) int64 {
	switch {
	case soon:
		return min(int64(in), Soon-1)
	case in == Never || lru:
		return Never
	}
	return Soon + 1 + int64(in)
}

// muchLater was measured with three readers in little memory. They read 1.6 times as much as they
// need with a factor of 1, 1.3 times with 2, 1.2 times with 4, and hardly less with larger factors.
const muchLater = 4

// Before an idle chunk is evicted, the cache queries the due times of some of the chunks that no
// reader needs soon. If there are at most looks of them, it queries all, and the choice is exact.
// It first queries the chunks that were due last in the previous choice: for the others it is then
// enough to know that they are due sooner.
const (
	oldest   = 8 // chunks that are idle for the longest time: the first one that no reader needs is evicted
	newest   = 8 // chunks that became idle last: at the start of an epoch, only these have no further use in it
	runnerUp = 8 // chunks that were due last in the previous choice, except the evicted one
	drawn    = 8 // random others
	looks    = oldest + newest + runnerUp + drawn
	again    = 4 // chunks that readers needed soon: check whether they still do

	latest = 32 // maximum number of chunks checked, from the one that became idle last, to find newest that readers need later
)

// mostAsked is the maximum number of due times that one choice queries.
const mostAsked = again + (runnerUp + 1) + oldest + latest + drawn

// idle lists the chunks without a lease. A released chunk is first added to others. After its due
// time was queried, it is moved accordingly.
type idle[K comparable] struct {
	others  queue[K] // due after Soon at the last query, or not queried yet
	soon    queue[K] // due up to Soon at the last query
	bytes   int64
	runners []*entry[K] // chunks of the last choice, in the order in which they would be evicted
	random  *rand.Rand
}

// before reports whether an entry is evicted before another one: it is due later, or it is due at
// the same time and idle for longer.
func (e *entry[K]) before(o *entry[K]) bool {
	return e.due > o.due || e.due == o.due && e.place < o.place
}

func newIdle[K comparable]() idle[K] {
	return idle[K]{random: rand.New(rand.NewPCG(1, 2))} // a fixed seed makes simulations deterministic
}

func (l *idle[K]) count() int { return l.others.count + l.soon.count }

// add adds a released entry.
func (l *idle[K]) add(e *entry[K]) {
	l.bytes += e.cost
	l.others.add(e)
}

func (l *idle[K]) remove(e *entry[K]) {
	l.bytes -= e.cost
	if l.others.has(e) {
		l.others.remove(e)
	} else {
		l.soon.remove(e)
	}
}

// lease adds a lease of an entry, which may be idle.
func (l *idle[K]) lease(e *entry[K]) {
	if e.refs == 0 {
		l.remove(e)
	}
	e.refs++
}

// release ends one lease and reports whether the entry is idle now.
func (l *idle[K]) release(e *entry[K]) bool {
	if e.refs <= 0 {
		panic("chunkcache: lease closed twice")
	}
	e.refs--
	if e.refs > 0 {
		return false
	}
	l.add(e)
	return true
}

// choice is one choice of a chunk to evict for a chunk due at the given time. It has three steps:
// begin lists entries, ask queries their due times, and choose selects the one to evict. Only ask
// takes long, and it needs no lock.
type choice[K comparable] struct {
	due  int64
	soon bool // readers need all idle chunks soon, as far as known: some of those are queried
	asks []ask[K]
	// Bounds in asks. Entries up to again were needed soon at their last query. From there to
	// any, all are queried. From there to oldest, the queries end with the first entry that no
	// reader needs. From there to newest, they end once enough entries are due later. After
	// newest, all are queried.
	again, any, oldest, newest int
}

// ask is a query for the due time of one entry.
type ask[K comparable] struct {
	*entry[K]
	names []place[K] // names of the entry; reading them needs no lock
	due   int64
	asked bool
}

// begin begins a choice.
func (l *idle[K]) begin(due int64) *choice[K] {
	c := &choice[K]{due: due, soon: l.others.count == 0, asks: make([]ask[K], 0, mostAsked)}
	if c.soon {
		c.list(l.soon.oldest(again + looks/2)...)
		for range min(looks/2, l.soon.count) {
			c.list(l.soon.draw(l.random))
		}
		return c
	}
	c.again = c.list(l.soon.oldest(again)...)
	if l.others.count <= looks {
		c.any = c.list(l.others.oldest(looks)...)
		return c
	}
	c.any = c.again
	if len(l.runners) > 0 && l.runners[0].due < Never {
		c.any = c.list(slices.DeleteFunc(slices.Clone(l.runners), func(e *entry[K]) bool { return !l.others.has(e) })...)
	}
	c.oldest = c.list(l.others.oldest(oldest)...)
	c.newest = c.list(l.others.latest(latest)...)
	for range drawn {
		c.list(l.others.draw(l.random))
	}
	return c
}

// list adds entries to query. It returns the number of entries so far.
func (c *choice[K]) list(entries ...*entry[K]) int {
	for _, e := range entries {
		c.asks = append(c.asks, ask[K]{entry: e, names: e.places})
	}
	return len(c.asks)
}

// ask queries the due times of the entries. next returns the due time of one entry, or any time up
// to enough if the due time is at most enough.
func (c *choice[K]) ask(next func(e *entry[K], names []place[K], enough int64) int64) {
	enough, later := int64(Soon), 0
	if c.soon {
		enough = c.due
	}
	for i := range c.asks {
		a := &c.asks[i]
		switch {
		case i < c.again:
			a.due = next(a.entry, a.names, Soon)
		case i >= c.oldest && i < c.newest && later == newest:
			continue
		default:
			a.due = next(a.entry, a.names, enough)
			enough = max(enough, a.due-1)
		}
		a.asked = true
		if i >= c.oldest && a.due > Soon {
			later++
		}
		if i >= c.any && i < c.oldest && a.due == Never {
			return // it has been idle for longer than the entries after it
		}
	}
}

// choose returns the entry to evict: of the queried entries that are still idle, the one due last.
// It returns nil if no entry is due later than c.due, or never. more reports that readers need all
// of them soon, so the caller should begin another choice.
func (l *idle[K]) choose(c *choice[K]) (e *entry[K], more bool) {
	l.runners = make([]*entry[K], 0, runnerUp+2)
	for i, a := range c.asks {
		needed := l.soon.has(a.entry)
		if !a.asked || !needed && !l.others.has(a.entry) {
			continue
		}
		switch soon := a.due <= Soon; {
		case !soon && needed:
			l.soon.remove(a.entry)
			l.others.add(a.entry)
		case soon && !needed:
			l.others.remove(a.entry)
			l.soon.add(a.entry)
		case soon && i < again:
			l.soon.remove(a.entry)
			l.soon.add(a.entry)
		}
		if a.due > Soon || c.soon && needed {
			l.note(a.entry, a.due)
		}
	}
	if len(l.runners) == 0 {
		return nil, l.count() > 0
	}
	if e := l.runners[0]; e.due > c.due || e.due == Never {
		return e, false
	}
	return nil, false
}

// last makes a choice in one call.
func (l *idle[K]) last(due int64, next func(e *entry[K], names []place[K], enough int64) int64) (e *entry[K], more bool) {
	c := l.begin(due)
	c.ask(next)
	return l.choose(c)
}

// note adds an entry to the runners if it should be evicted before one of them.
func (l *idle[K]) note(e *entry[K], due int64) {
	if slices.Contains(l.runners, e) {
		return
	}
	e.due = due
	at := 0
	for at < len(l.runners) && !e.before(l.runners[at]) {
		at++
	}
	l.runners = slices.Insert(l.runners, at, e)
	l.runners = l.runners[:min(len(l.runners), runnerUp+1)]
}

// queue lists entries in the order in which they were added. A removed entry leaves a hole until
// the list is packed.
type queue[K comparable] struct {
	list  []*entry[K]
	first int // index of the first entry
	count int
}

// leastHoles is the minimum number of holes for which a list is packed.
const leastHoles = 64

func (q *queue[K]) add(e *entry[K]) {
	if len(q.list) >= 2*q.count+leastHoles {
		q.pack()
	}
	e.place = len(q.list)
	q.list = append(q.list, e)
	q.count++
}

func (q *queue[K]) pack() {
	kept := q.list[:0]
	for _, e := range q.list {
		if e != nil {
			e.place = len(kept)
			kept = append(kept, e)
		}
	}
	clear(q.list[len(kept):])
	q.list, q.first = kept, 0
}

func (q *queue[K]) remove(e *entry[K]) {
	q.list[e.place] = nil
	q.count--
	for q.first < len(q.list) && q.list[q.first] == nil {
		q.first++
	}
}

func (q *queue[K]) has(e *entry[K]) bool { return e.place < len(q.list) && q.list[e.place] == e }

// oldest returns the first n entries, or all if there are fewer.
func (q *queue[K]) oldest(n int) []*entry[K] {
	first := make([]*entry[K], 0, min(n, q.count))
	for _, e := range q.list[q.first:] {
		if len(first) == cap(first) {
			break
		}
		if e != nil {
			first = append(first, e)
		}
	}
	return first
}

// latest returns the last n entries in reverse order, or all if there are fewer.
func (q *queue[K]) latest(n int) []*entry[K] {
	last := make([]*entry[K], 0, min(n, q.count))
	for i := len(q.list) - 1; i >= q.first && len(last) < cap(last); i-- {
		if e := q.list[i]; e != nil {
			last = append(last, e)
		}
	}
	return last
}

// draw returns a random entry. There must be one.
func (q *queue[K]) draw(random *rand.Rand) *entry[K] {
	at := q.first + random.IntN(len(q.list)-q.first)
	for q.list[at] == nil {
		if at++; at == len(q.list) {
			at = q.first
		}
	}
	return q.list[at]
}
