package simulate

import (
	"slices"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/shuffle"
)

// What a question may bring for the next batches of its rank, beside what the batch needs, as in the data path.
const (
	mostCarried   = 8 << 20 // bytes of one question
	carryShare    = 32      // the part of the memory that these are at most
	carriedShare  = 8       // the part that all carried samples may take together
	carriedAhead  = 7       // batches
	carriedLoads  = 64      // at most kept for one rank
	carriedSample = 128     // bytes that a sample takes beside its own
)

// carry keeps samples that other gateways have sent along with what a batch needs, because its rank comes for them next.
type carry struct {
	gateway *gateway
	loads   []*carried
}

// carried is what one answer brought along.
type carried struct {
	cost        int64
	epoch       uint64
	first, last uint64 // positions at which the batches begin, from the one that it came with to the last one that it is for
	samples     map[uint64]bool
	shown       int  // requests that show some of them
	gone        bool // its memory goes back with the last of those
}

// query is how many bytes a question may bring along.
func (g *gateway) query() int64 { return min(mostCarried, g.set.CacheSize/carryShare) }

// take leaves of a request's uses what is not there yet. What is there is the request's until it is closed.
func (c *carry) take(r *request, uses []use) []use {
	c.retain(func(l *carried) bool {
		return l.epoch == r.at.Epoch.Number() && l.first <= r.at.First && r.at.First <= l.last
	})
	rest := uses[:0:0]
	for _, u := range uses {
		var places []uint64
		for _, x := range u.places {
			if !c.has(x) {
				places = append(places, x)
				continue
			}
			i := slices.IndexFunc(c.loads, func(l *carried) bool { return l.samples[x] })
			l := c.loads[i]
			delete(l.samples, x)
			l.shown++
			r.shown = append(r.shown, l)
			c.gateway.count.Carried++
			if len(l.samples) == 0 {
				c.retain(func(o *carried) bool { return o != l })
			}
		}
		if len(places) > 0 {
			rest = append(rest, use{u.chunk, int64(len(places)), places})
		}
	}
	return rest
}

func (c *carry) has(sample uint64) bool {
	return slices.ContainsFunc(c.loads, func(l *carried) bool { return l.samples[sample] })
}

// later adds to questions what the rank's next batches need of chunks that are asked for, or have been in use since before.
func (c *carry) later(r *request, questions []question) {
	g := c.gateway
	room := map[*gateway]int64{}
	number := map[*gateway]int{}
	whose := map[int32]*gateway{}
	for i, q := range questions {
		room[q.owner], number[q.owner] = g.query(), i
		for _, u := range q.uses {
			whose[u.chunk] = q.owner
		}
	}
	for n := uint64(1); n <= carriedAhead && len(room) > 0; n++ {
		samples, ok := r.at.Later(nil, n)
		if !ok {
			break
		}
		for _, x := range samples {
			chunk := g.data.chunkOf(x)
			o, known := whose[chunk]
			if !known {
				o = c.inUse(r.at, chunk)
				whose[chunk] = o
			}
			left, ok := room[o]
			if !ok || c.has(x) {
				continue
			}
			if left -= g.data.bytesOf(chunk, 1) + carriedSample; left < 0 {
				delete(room, o)
				continue
			}
			room[o] = left
			q := &questions[number[o]]
			q.later, q.last = append(q.later, x), r.at.First+n*r.at.BatchSize
		}
	}
}

// inUse returns the gateway that is to be asked for a chunk that readers have begun with.
func (c *carry) inUse(at shuffle.Cursor, chunk int32) *gateway {
	span, ok := at.Epoch.Next(uint64(chunk), at.First)
	if !ok || span.From+at.BatchSize > at.First || !c.gateway.elsewhere(chunk) {
		return nil
	}
	return c.gateway.cluster.owner(chunk)
}

// along takes memory for what a question is to bring along, and adds it to the question, if there is memory that nobody needs.
func (c *carry) along(r *request, q *question) *carried {
	g := c.gateway
	if len(q.later) == 0 {
		return nil
	}
	l := &carried{epoch: r.at.Epoch.Number(), first: r.at.First, last: q.last, samples: map[uint64]bool{}}
	var bytes int64
	extra := g.data.usesOf(slices.Clone(q.later))
	for _, u := range extra {
		bytes += g.data.bytesOf(u.chunk, u.samples)
	}
	l.cost = chunkcache.Cost(bytes + carriedSample*int64(len(q.later)))
	if g.carried+l.cost > g.set.CacheSize/carriedShare || !g.memory.take(l.cost) {
		return nil
	}
	g.carried += l.cost
	q.bytes += bytes
	all := slices.Concat(q.uses, extra)
	slices.SortStableFunc(all, func(a, b use) int { return int(a.chunk - b.chunk) })
	q.uses = merge(all)
	for _, x := range q.later {
		l.samples[x] = true
	}
	return l
}

// keep takes in what has come.
func (c *carry) keep(l *carried) {
	if len(c.loads) >= carriedLoads {
		c.free(l)
		return
	}
	c.loads = append(c.loads, l)
}

// retain leaves the loads that are to stay.
func (c *carry) retain(stays func(*carried) bool) {
	left := c.loads[:0:0]
	for _, l := range c.loads {
		if stays(l) {
			left = append(left, l)
		} else if l.gone = true; l.shown == 0 {
			c.free(l)
		}
	}
	c.loads = left
}

// release ends a request's use of samples.
func (c *carry) release(r *request) {
	for _, l := range r.shown {
		if l.shown--; l.shown == 0 && l.gone {
			c.free(l)
		}
	}
}

func (c *carry) free(l *carried) {
	c.gateway.carried -= l.cost
	c.gateway.memory.give(l.cost)
}
