package simulate

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/cluster/placement"
)

// cluster is a set of gateways with one common cache: each chunk has an owner among them. A gateway
// with its own cache is a cluster of one.
type cluster struct {
	members []*gateway
	owners  []int32 // by chunk: index of its owner in members
}

// owner returns the member that keeps a chunk and reads it from the store.
func (c *cluster) owner(chunk int32) *gateway {
	if len(c.members) == 1 {
		return c.members[0]
	}
	return c.members[c.owners[chunk]]
}

// owners returns the number of the owner of each chunk, among n gateways, by the chunks' digests.
func owners(d *Data, n int) []int32 {
	if n == 1 {
		return nil
	}
	all := make([]int32, len(d.Chunks))
	view := placement.NewView(members(n))
	for i := range all {
		all[i] = int32(view.Owner(d.digest(i), nil))
	}
	return all
}

// members returns n gateways of equal weight, with names in the order of their numbers.
func members(n int) []placement.Member {
	all := make([]placement.Member, n)
	for i := range all {
		all[i] = placement.Member{ID: fmt.Sprintf("gateway-%06d", i), Weight: 1 << 30}
	}
	return all
}

// digest identifies a chunk by the index's digest, or by its number if there is no index.
func (d *Data) digest(chunk int) [32]byte {
	if d.Digest != nil {
		return d.Digest(chunk)
	}
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(chunk)))
}

// question is a query from one gateway to another one, for ranges of chunks that the other one
// owns.
type question struct {
	owner *gateway
	uses  []use
	bytes int64
}

// bytesOf returns the number of bytes that queries request.
func bytesOf(all []question) (n int64) {
	for _, q := range all {
		n += q.bytes
	}
	return n
}

// questions returns the uses of a request that this gateway reads itself, and sets r.far to the
// uses that other gateways own. It sets r.asks to one query per owner, for the samples that the
// request's run has not delivered.
func (g *gateway) questions(r *request) (mine []use) {
	mine = make([]use, 0, len(r.uses))
	for _, u := range r.uses {
		if g.elsewhere(u.chunk) {
			r.far = append(r.far, u)
		} else {
			mine = append(mine, u)
		}
	}
	r.asks = g.ownersOf(r.take(r.far))
	return mine
}

// ownersOf groups uses into one query per owner.
func (g *gateway) ownersOf(uses []use) (questions []question) {
	at := make(map[*gateway]int)
	for _, u := range uses {
		o := g.cluster.owner(u.chunk)
		i, ok := at[o]
		if !ok {
			i = len(questions)
			at[o] = i
			questions = append(questions, question{owner: o})
		}
		q := &questions[i]
		q.uses = append(q.uses, u)
		q.bytes += g.data.bytesOf(u.chunk, u.samples)
	}
	return questions
}

// elsewhere reports whether a chunk must be requested from another gateway, because that gateway
// owns it and this one does not have it.
func (g *gateway) elsewhere(chunk int32) bool {
	return g.cluster.owner(chunk) != g && !g.memory.contains(chunk) && !g.readsDisk(chunk)
}

// far returns the number of bytes of a request that are requested from other gateways.
func (g *gateway) far(r *request) (n int64) {
	if len(g.cluster.members) == 1 {
		return 0
	}
	for _, u := range r.uses {
		if g.elsewhere(u.chunk) {
			n += g.data.bytesOf(u.chunk, u.samples)
		}
	}
	if n == 0 {
		return 0
	}
	return max(int64(float64(n)*g.bodies), 1)
}

// ask sends the queries in r.asks, one to each owner. Their answers use the links of both gateways.
func (g *gateway) ask(r *request, done func()) {
	left := 1 + len(r.asks)
	one := func() {
		if left--; left == 0 {
			done()
		}
	}
	for _, q := range r.asks {
		g.count.PeerReads++
		g.question(&request{at: r.at, think: r.visit.Think, full: func() { g.alone(r, q.uses, one) }}, q, one)
	}
	one()
}

// question sends a query to one gateway, for a rank at the position of asked.
func (g *gateway) question(asked *request, q question, one func()) {
	asked.uses, asked.bytes = q.uses, q.bytes
	asked.ready = func() {
		between(q.owner, g, q.bytes, func() {
			q.owner.close(asked)
			one()
		})
	}
	g.clock.after(g.set.PeerLatency, func() { q.owner.answer(asked) })
}

// alone reads uses whose owner has no memory for its answer.
func (g *gateway) alone(r *request, uses []use, done func()) {
	var whole, ranged []use
	for _, u := range uses {
		if g.pays(r, u) {
			whole = append(whole, u)
		} else {
			ranged = append(ranged, u)
		}
	}
	g.copies(r, whole, ranged, done)
}

// between transfers bytes from one gateway to another.
func between(from, to *gateway, n int64, done func()) {
	n = int64(float64(n) * to.beyond)
	to.count.PeerBytes += n
	from.count.LinkOut += n
	to.count.LinkIn += n
	through(n, atEnd(n, done), from.up, to.down)
}

// send transfers an answer to a rank.
func (g *gateway) send(n int64, done func()) {
	if g.set.RanksNear {
		g.out.send(n, done)
		return
	}
	g.count.LinkOut += n
	through(n, atEnd(n, done), g.out, g.up)
}

// through transfers bytes over several lines in series. It calls came with the number of bytes that
// have passed all lines.
func through(n int64, came func(total int64), lines ...*line) {
	var carried []int64 // bytes transferred by each line; -1: no report yet
	for i, l := range lines {
		if i > 0 && !l.bounded() {
			continue
		}
		at := len(carried)
		carried = append(carried, -1)
		l.carry(n, func(total int64) {
			before := slices.Min(carried)
			carried[at] = total
			if least := slices.Min(carried); least > before {
				came(least)
			}
		})
	}
}

// askingShare is the divisor of the memory for requests that wait for other gateways. The rest is
// needed to answer queries.
const askingShare = 2

// turns limits the bytes of the requests that have entered. They enter in the order of arrival.
type turns struct {
	max, left int64
	queue     []waiter
}

// enter calls ready when n more bytes fit under the limit.
func (t *turns) enter(n int64, ready func()) {
	t.queue = append(t.queue, waiter{min(n, t.max), ready})
	t.next()
}

func (t *turns) leave(n int64) {
	t.left += min(n, t.max)
	t.next()
}

func (t *turns) next() {
	for len(t.queue) > 0 && t.queue[0].n <= t.left {
		w := t.queue[0]
		t.queue = t.queue[1:]
		t.left -= w.n
		w.ready()
	}
}
