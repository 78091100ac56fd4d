package chunkcache

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// Soon divides the answers of Due. Readers come soon for a chunk whose answer is up to Soon, and later
	// for one whose answer is above it. On either side the answer grows with the time until a reader comes.
	Soon = math.MaxInt64 / 4
	// Never is the answer for a chunk that no reader is known to come for.
	Never = math.MaxInt64
	// Whatever is a limit that lets any idle chunk go.
	Whatever = -1
)

// Later returns how late a chunk that a reader comes for soon must be due to be evicted for one that is read
// ahead of need. If it were less, readers that are nearly alike would evict each other's chunks in turn.
func Later(due int64) int64 {
	if due < Soon {
		return min(muchLater*due, Soon-1)
	}
	return due
}

// muchLater is measured with three readers in little memory: with 1 they read 1.6 times as much as
// they need, with 2 1.3 times, with 4 1.2 times, and with any larger one hardly less.
const muchLater = 4

// Before an idle chunk goes, so many of those that nobody comes for soon are asked when they are due.
// If there are no more, all are asked, and the choice is exact. Readers wait meanwhile, so the chunks that were
// due last in the choice before are asked first: of the others it is enough to know that they are due sooner.
const (
	oldest   = 8 // those longest idle: of what nobody comes for the oldest goes, at the first answer
	newest   = 8 // those idle last: as an epoch begins, only these have no use left in it
	runnerUp = 8 // those that were due last in the choice before, but for the one that went
	drawn    = 8 // others, by chance
	looks    = oldest + newest + runnerUp + drawn
	again    = 4 // of those that readers came for soon are asked whether they still do

	latest = 32 // of those idle last are asked at most to find newest that readers come for later
)

// mostAsked is how many chunks are asked at most while the cache is locked.
const mostAsked = again + (runnerUp + 1) + oldest + latest + drawn

// idle holds the chunks without a lease. A released chunk is first listed among the others. Once it has
// been asked when it is due, it is listed where it belongs.
type idle[K comparable] struct {
	others  queue[K] // due after Soon, as far as they were asked
	soon    queue[K] // due up to Soon, when they were asked last
	bytes   int64
	next    func(e *entry[K], enough int64) int64
	runners []*entry[K] // of the last choice, the one due last first
	random  *rand.Rand
}

// before reports whether an entry goes before another does: it is due later, or as late and idle for longer.
func (e *entry[K]) before(o *entry[K]) bool {
	return e.due > o.due || e.due == o.due && e.place < o.place
}

func newIdle[K comparable](next func(e *entry[K], enough int64) int64) idle[K] {
	return idle[K]{next: next, random: rand.New(rand.NewPCG(1, 2))} // a simulation gives the same answer each time
}

func (l *idle[K]) count() int { return l.others.count + l.soon.count }

// add adds an entry that was released.
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

// lease holds an entry, which may be idle.
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

// last chooses the chunk to evict for one that is due at a time: of the idle entries that it asks, the one due
// last. nil: none of these is due later than that, or never. more says that readers come soon for all that it has
// asked, and that it is to be called again: it asks mostAsked at most.
func (l *idle[K]) last(due int64) (e *entry[K], more bool) {
	if l.count() == 0 {
		return nil, false
	}
	for _, e := range l.soon.oldest(again) {
		l.soon.remove(e)
		if l.next(e, Soon) > Soon {
			l.others.add(e)
		} else {
			l.soon.add(e)
		}
	}
	was := l.runners
	l.runners = make([]*entry[K], 0, runnerUp+2)
	if l.others.count > 0 {
		if l.sample(was); len(l.runners) == 0 {
			return nil, true
		}
	} else {
		for _, e := range l.soon.oldest(looks / 2) {
			l.note(e, l.next(e, l.enough(due)))
		}
		for range looks / 2 {
			e := l.soon.draw(l.random)
			l.note(e, l.next(e, l.enough(due)))
		}
	}
	if e := l.runners[0]; e.due > due || e.due == Never {
		return e, false
	}
	return nil, false
}

// enough returns a time: an entry that is due by then is not the one to go.
func (l *idle[K]) enough(least int64) int64 {
	if len(l.runners) > 0 {
		return l.runners[0].due - 1
	}
	return least
}

// sample asks some of the others.
func (l *idle[K]) sample(runners []*entry[K]) {
	if l.others.count <= looks {
		for _, e := range l.others.oldest(looks) {
			l.ask(e)
		}
		return
	}
	if len(runners) > 0 && runners[0].due < Never {
		for _, e := range runners {
			if l.others.has(e) {
				l.ask(e)
			}
		}
	}
	for _, e := range l.others.oldest(oldest) {
		if l.ask(e) == Never {
			return // nobody comes for it, and it is idle for longer than others
		}
	}
	asked, later := 0, 0
	for e := range l.others.newest() {
		asked++
		if l.ask(e) > Soon {
			later++
		}
		if asked == latest || later == newest {
			break
		}
	}
	for range drawn {
		if l.others.count > 0 {
			l.ask(l.others.draw(l.random))
		}
	}
}

// ask asks when one of the others is due. One that is due soon is put among its like.
func (l *idle[K]) ask(e *entry[K]) int64 {
	due := l.next(e, l.enough(Soon))
	if due <= Soon {
		l.others.remove(e)
		l.soon.add(e)
	} else {
		l.note(e, due)
	}
	return due
}

// note notes when an entry is due, and keeps it among the runners if it goes before one of them.
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

// queue lists entries in the order in which they were added. One that leaves leaves a hole, until the
// list is packed.
type queue[K comparable] struct {
	list  []*entry[K]
	first int // no entry stands before it
	count int
}

// leastHoles is how many holes a list has at least when it is packed.
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

// oldest returns the first n entries, or all there are.
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

// newest yields the entries, the last one first. They may be removed meanwhile.
func (q *queue[K]) newest() iter.Seq[*entry[K]] {
	return func(yield func(*entry[K]) bool) {
		for i := len(q.list) - 1; i >= q.first; i-- {
			if e := q.list[i]; e != nil && !yield(e) {
				return
			}
		}
	}
}

// draw returns one of the entries by chance. There must be one.
func (q *queue[K]) draw(random *rand.Rand) *entry[K] {
	at := q.first + random.IntN(len(q.list)-q.first)
	for q.list[at] == nil {
		if at++; at == len(q.list) {
			at = q.first
		}
	}
	return q.list[at]
}
