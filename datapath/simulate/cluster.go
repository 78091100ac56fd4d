package simulate

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/cluster/placement"
	"github.com/millrace-data/millrace/datapath/policy"
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

// far returns the number of bytes of a request that are requested from other gateways, at most as
// many as may be requested at the same time.
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
	return min(max(int64(float64(n)*g.bodies), 1), max(g.set.CacheSize/policy.AskShare, 1))
}

// ask sends the queries in r.asks, one to each owner, and waits for their answers.
func (g *gateway) ask(r *request) {
	g.clock.each(len(r.asks), len(r.asks), func(i int) {
		q := r.asks[i]
		if !g.question(&request{at: r.at}, r.visit.Think, q) {
			whole, ranged := g.chooseReads(r, q.uses) // the owner has no memory for its answer
			g.copies(r, whole, ranged)
		}
	})
}

// question sends a query to one gateway, for a rank with the position of asked and a think time. It
// returns false if the gateway has no memory for its answer.
func (g *gateway) question(asked *request, think time.Duration, q question) bool {
	g.count.PeerReads++
	asked.uses, asked.bytes = q.uses, q.bytes
	g.clock.sleep(g.set.PeerLatency)
	if !q.owner.answer(asked, think) {
		return false
	}
	n := int64(float64(q.bytes) * g.beyond)
	q.owner.count.PeerBytes += n
	q.owner.count.LinkOut += n
	g.count.LinkIn += n
	g.clock.transfer(n, nil, q.owner.up, g.down)
	q.owner.close(asked)
	return true
}

// send transfers an answer to a rank.
func (g *gateway) send(n int64) {
	if g.set.RanksNear {
		g.clock.transfer(n, nil, g.out)
		return
	}
	g.count.LinkOut += n
	g.clock.transfer(n, nil, g.out, g.up)
}
