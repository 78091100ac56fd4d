package lookahead

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	behindBatches = 2  // how far behind the foremost rank of a reader the chunks are kept, or a batch more than the last one is
	foresight     = 64 // spans worked out beyond those that are needed soon
	aheadChunks   = 16 // needed soon: so many after those needed now, or to the end of the next window if that is more
)

// Horizon is the set of chunks that readers come for soon. It never changes.
type Horizon struct {
	places map[Place]share
	clock  uint64 // which clock the answers of Readers.Next are on
}

// share is what is known of one chunk.
type share struct {
	samples uint64 // that are still to be delivered; 0: only a rank that is behind needs it
	order   int    // of admission
}

// Has reports whether a chunk is in it.
func (h *Horizon) Has(d Dataset, chunk int) bool {
	_, ok := h.places[Place{d, chunk}]
	return ok
}

// Samples returns how many of a chunk's samples readers still come for while it is within the horizon, as far as is known.
func (h *Horizon) Samples(d Dataset, chunk int) uint64 { return h.places[Place{d, chunk}].samples }

// Order returns the rank of a chunk among those within the horizon, the lower the sooner it is needed, and whether it
// is one of them. It costs less than to ask Readers.Next.
func (h *Horizon) Order(d Dataset, chunk int) (int, bool) {
	s, ok := h.places[Place{d, chunk}]
	return s.order, ok
}

// All yields its chunks, in no order.
func (h *Horizon) All() iter.Seq[Place] { return maps.Keys(h.places) }

// SameClock reports whether the answers that Readers.Next gave under another horizon can be compared with those it gives under
// this one. If not, whoever keeps some has to ask again: readers have come, gone or been kept waiting.
func (h *Horizon) SameClock(as *Horizon) bool { return h.clock == as.clock }

// Horizon returns the chunks that must not be evicted while others can be: those that readers need now and soon, and
// those that a rank a little behind still needs. Two calls return the same pointer as long as nothing has changed.
func (r *Readers) Horizon() *Horizon { return r.horizon.Load() }

// Expected reports whether a chunk is within the horizon: a reader comes for it, and it will be kept until then.
func (r *Readers) Expected(d Dataset, chunk int) bool { return r.horizon.Load().Has(d, chunk) }

// use is one span in which a reader needs a chunk.
type use struct {
	shuffle.Span
	start uint64 // where it begins, counted on from the reader's epoch
}

func (u use) end() uint64 { return u.start + u.To - u.From }

// ahead is what one reader needs, in order of need.
type ahead struct {
	looked  bool
	ends    uint64 // from this position on, a chunk is not needed any more
	begins  uint64 // from this position on, another one is needed
	current []use  // needed for the batch that the reader stands at
	soon    []use
	behind  []int // needed by a rank a little behind: kept, never fetched

	epoch  uint64
	future []use // of that epoch on: what these are taken from

	squeezed bool  // the chunks needed now do not all fit
	queue    []use // those of current and soon that are within the horizon
}

// stale reports whether the reader has moved so far that it needs other chunks.
func (x *reader) stale() bool { return !x.looked || x.at.First >= x.ends || x.at.End > x.begins }

// last returns the position, in the reader's epoch, from which on its ranks still need chunks.
func (x *reader) last() uint64 {
	return x.at.First - min(max(behindBatches*x.at.BatchSize, x.lag+x.at.BatchSize), x.at.First)
}

// look works out what a reader needs now and soon, as far as the memory may hold it.
func (r *Readers) look(x *reader) {
	limit := r.cfg.Budget
	x.looked = true
	back := x.last()
	if x.epoch != x.at.Epoch.Number() {
		x.epoch, x.future = x.at.Epoch.Number(), x.future[:0]
	}
	x.future = slices.DeleteFunc(x.future, func(u use) bool { return u.end() <= back })
	if !x.sort(limit) {
		r.foresee(x, back, limit)
		x.sort(limit)
	}
}

// sort sorts the future into what the reader needs now and what it needs soon, and reports whether it holds all of that.
func (x *reader) sort(limit int64) bool {
	total, most := x.at.Plan.Samples(), x.reach()
	x.current, x.soon, x.behind = x.current[:0], x.soon[:0], x.behind[:0]
	x.ends, x.begins = total, total
	for _, u := range x.future {
		switch {
		case u.end() <= x.at.First:
			x.behind = append(x.behind, int(u.Chunk))
			continue
		case x.now(u):
			x.current = append(x.current, u)
			x.ends = min(x.ends, u.To)
			limit -= x.dataset.Cost(int(u.Chunk))
			continue
		}
		x.begins = min(x.begins, u.start)
		if limit -= x.dataset.Cost(int(u.Chunk)); limit < 0 || len(x.soon) == most {
			return true
		}
		x.soon = append(x.soon, u)
	}
	return false
}

// now reports whether the batch that the reader stands at needs a chunk.
func (x *reader) now(u use) bool { return u.start < x.at.End && u.start < x.at.Plan.Samples() }

// foresee works out the future from a position on: what is needed now and soon, and some more, since to begin with the spans
// somewhere is the larger part of what it costs. It prepares the next epoch only if that is needed.
func (r *Readers) foresee(x *reader, back uint64, limit int64) {
	most, more := x.reach(), foresight
	x.future = x.future[:0]
	take := func(u use) bool {
		if !r.mine(x.dataset, x.at.Plan, x.groups, u.Chunk) {
			return true
		}
		x.future = append(x.future, u)
		if u.end() > x.at.First {
			limit -= x.dataset.Cost(int(u.Chunk))
			if !x.now(u) {
				most--
			}
		}
		if most < 0 || limit < 0 {
			more--
		}
		return more > 0
	}
	for span := range x.at.Epoch.Spans(back) {
		if !take(use{span, span.From}) {
			return
		}
	}
	if more < foresight {
		return
	}
	for span := range x.rest().Spans(0) {
		if !take(use{span, x.at.Plan.Samples() + span.From}) {
			return
		}
	}
}

// reach is how many chunks after those needed now are needed soon.
func (x *reader) reach() int {
	if params := x.at.Plan.Params(); params.Shuffle == shuffle.Window {
		return max(aheadChunks, int(min(params.Window, 1<<20)))
	}
	return aheadChunks
}

// onePart is the part of the readers that move on before the horizon is worked out anew, an eighth: that takes as long as there are
// readers, so that with each move of one of them the cost of many would grow with the square of their number.
const onePart = 8

// due reports whether the horizon has to be worked out anew since a reader has moved on: if enough of them have, or if
// this one's batch needs what is not within the horizon.
func (r *Readers) due(x *reader) bool {
	r.moves++
	return r.moves*onePart >= len(r.readers) || !x.squeezed && !x.ready(r.horizon.Load())
}

// ready reports whether what the reader's batch needs is known to be within the horizon.
func (x *reader) ready(h *Horizon) bool {
	if x.epoch != x.at.Epoch.Number() {
		return false
	}
	for _, u := range x.future {
		if u.start >= x.at.End {
			return true
		}
		if u.end() > x.at.First && !h.Has(x.dataset, int(u.Chunk)) {
			return false
		}
	}
	return false
}

// expect works out the horizon. The memory goes first to what the batches need that the readers stand at, then to what
// ranks a little behind still need, then to what comes next, in order of deadline over all readers: so no reader holds
// memory that another one needs sooner. A chunk that several readers need takes its room once.
func (r *Readers) expect() {
	r.moves = 0
	was := r.horizon.Load()
	h := &Horizon{make(map[Place]share, len(was.places)), was.clock}
	a := admission{left: r.cfg.Budget, places: h.places}
	for _, x := range r.readers {
		if x.stale() {
			r.look(x)
		}
		x.queue = x.queue[:0]
	}
	a.current(r.readers)
	a.behind(r.readers, true)
	a.soon(r.readers)
	a.behind(r.readers, false)
	r.shared = a.shared
	r.horizon.Store(h)
}

// admission fills the memory.
type admission struct {
	left   int64
	places map[Place]share
	shared bool // some chunk is needed twice
}

// take admits a chunk, so many of whose samples are still to be delivered, if there is room for it.
func (a *admission) take(d Dataset, chunk, samples uint64) bool {
	p := Place{d, int(chunk)}
	if before, ok := a.places[p]; ok {
		if samples > 0 {
			a.places[p], a.shared = share{before.samples + samples, before.order}, true
		}
		return true
	}
	n := d.Cost(p.Chunk)
	if n > a.left {
		return false
	}
	a.left -= n
	a.places[p] = share{samples, len(a.places)}
	return true
}

// current admits what the batches need that the readers stand at. Where that does not fit, those that need little get
// it all, and the others share the rest.
func (a *admission) current(readers []*reader) {
	type claim struct {
		reader *reader
		cost   int64
	}
	claims := make([]claim, len(readers))
	for i, x := range readers {
		claims[i].reader = x
		for _, u := range x.current {
			claims[i].cost += x.dataset.Cost(int(u.Chunk))
		}
	}
	if len(claims) > 1 {
		slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.cost, b.cost) })
	}
	for i, c := range claims {
		whole := a.left
		a.left = whole / int64(len(claims)-i)
		rest := whole - a.left
		if c.reader.squeezed = !a.all(c.reader); c.reader.squeezed {
			a.choose(c.reader)
		}
		a.left += rest
	}
}

// all admits the chunks that a reader needs now, or none of them if they do not all fit.
func (a *admission) all(x *reader) bool {
	left, had := a.left, len(a.places)
	var taken []Place
	for _, u := range x.current {
		if !a.take(x.dataset, u.Chunk, u.left(x.at.First)) {
			for _, p := range taken {
				delete(a.places, p)
			}
			a.left, x.queue = left, x.queue[:0]
			return false
		}
		if len(a.places) > had {
			had = len(a.places)
			taken = append(taken, Place{x.dataset, int(u.Chunk)})
		}
		x.queue = append(x.queue, u)
	}
	return true
}

// choose picks from the chunks needed now where they do not all fit: those that are in memory, and
// those whose use has just begun. The others are read sample by sample until they end: to
// bring them whole would read again what of them is delivered already.
func (a *admission) choose(x *reader) {
	var fresh []use
	for _, u := range x.current {
		if x.dataset.Resident(int(u.Chunk)) {
			if a.take(x.dataset, u.Chunk, u.left(x.at.First)) {
				x.queue = append(x.queue, u)
			}
		} else if u.From >= x.at.First || x.at.First-u.From < (u.To-u.From)/8 {
			fresh = append(fresh, u)
		}
	}
	for _, u := range fresh {
		if !a.take(x.dataset, u.Chunk, u.left(x.at.First)) {
			break
		}
		x.queue = append(x.queue, u)
	}
}

// behind admits what ranks a little behind the foremost one still need, of those readers that are known to have such ranks,
// who come for it before anybody comes for what is needed soon, or of the others.
func (a *admission) behind(readers []*reader, known bool) {
	for _, x := range readers {
		if known != (x.lag > 0) {
			continue
		}
		for _, c := range x.behind {
			if !a.take(x.dataset, uint64(c), 0) {
				break
			}
		}
	}
}

// soon admits what comes next, in order of deadline over all readers. What is in memory already counts as needed
// twice as soon, so that two readers that are nearly alike do not take turns in throwing each other's chunks out.
func (a *admission) soon(readers []*reader) {
	type claim struct {
		reader *reader
		use    use
		due    time.Duration
	}
	var claims []claim
	for _, x := range readers {
		if x.squeezed {
			continue
		}
		rate := x.rate()
		for _, u := range x.soon {
			c := claim{x, u, takes(u.start-min(x.at.First, u.start), rate)}
			if len(readers) > 1 && x.dataset.Resident(int(u.Chunk)) {
				c.due /= 2
			}
			claims = append(claims, c)
		}
	}
	if len(readers) > 1 {
		slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.due, b.due) })
	}
	for _, c := range claims {
		if !a.take(c.reader.dataset, c.use.Chunk, c.use.Samples) {
			return
		}
		c.reader.queue = append(c.reader.queue, c.use)
	}
}
