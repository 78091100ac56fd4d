package datapath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/shuffle"
)

// Part is one source of a Mixture, and its name in errors.
type Part struct {
	Name   string
	Source *Source
}

// Mixture reads batches of which each source has a part. Chunks and shards are numbered on from one source to the next. It is
// safe for concurrent use.
//
// Its memory is taken as that of any batch, in one step for all parts, so that no batch holds some while it waits for more. First all parts are
// brought at once, and none of them waits for memory. Where there is not enough of it for one, all give back what they have taken; then
// memory for the whole body is waited for while nothing is held, and the parts are copied into it, which needs no other.
//
// Sources of several paths have as many budgets. Memory of each is taken in one step then, and path after path in an
// order that is the same for all mixtures. Who holds a budget's memory waits at most for budgets that come later, those who hold the last
// one's wait for none: so there is no circle.
type Mixture struct {
	paths  []*Path
	parts  []Part
	chunks []int // before each part, and of all
	shards []int // before each part
}

// Mix makes a mixture. paths are all those of the process, in the order in which their memory is waited for.
func Mix(paths []*Path, parts []Part) *Mixture {
	m := &Mixture{paths: paths, parts: parts, chunks: []int{0}, shards: []int{0}}
	for i, p := range parts {
		m.chunks = append(m.chunks, m.chunks[i]+p.Source.index.Chunks())
		m.shards = append(m.shards, m.shards[i]+p.Source.index.Shards())
	}
	return m
}

// helping is what a batch of a mixture takes of one source.
type helping struct {
	part   int
	source *Source
	at     shuffle.Cursor
	batch  *request
	seqs   []int // its segments in the whole body
	body   *batch.Body
}

// Read brings all ranges of one batch. at.Parts says where the reader stands in each source. Errors are those of Source.Read.
func (m *Mixture) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for i, p := range m.parts {
		if !p.Source.enter() {
			leaveAll(m.parts[:i])
			return nil, fmt.Errorf("source %s: %w", p.Name, ErrClosed)
		}
	}
	body, err := m.readBatch(ctx, at, chunks)
	return leaveAfter(func() { leaveAll(m.parts) }, body, err)
}

// leaveAll ends a use of the sources of some parts.
func leaveAll(parts []Part) {
	for _, p := range parts {
		p.Source.leave()
	}
}

func (m *Mixture) readBatch(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	all, total, err := m.divide(at, chunks)
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		h.source.visit(ctx, h.at, h.batch)
	}
	giveBack, err := m.bring(ctx, all)
	for _, h := range all {
		h.body, _ = h.batch.visit.ended(h.body, err)
	}
	if err != nil {
		return nil, err
	}
	segments := make([][]byte, total)
	var tiers []batch.TierTime
	for _, h := range all {
		for k, seq := range h.seqs {
			segments[seq] = h.body.Segments[k]
		}
		tiers = addTiers(tiers, h.body.Tiers)
	}
	return batch.NewBody(segments, tiers, func() {
		for _, h := range all {
			h.body.Close()
		}
		giveBack()
	}).OnSettle(func() {
		for _, h := range all {
			h.settle(segments)
		}
	}), nil
}

// settle settles one source's part of a body that has such segments.
func (h *helping) settle(segments [][]byte) {
	for k, seq := range h.seqs {
		if segments[seq] == nil {
			h.body.Segments[k] = nil
		}
	}
	h.body.Settle()
	for k, own := range h.body.Segments {
		segments[h.seqs[k]] = own
	}
}

// divide sorts what is wanted by source: segments are numbered anew there. total is how many there are.
func (m *Mixture) divide(at shuffle.Cursor, chunks []batch.ChunkRanges) (all []*helping, total int, err error) {
	wanted, seqs := make([][]batch.ChunkRanges, len(m.parts)), make([][]int, len(m.parts))
	for _, c := range chunks {
		i := sort.SearchInts(m.chunks, c.Chunk+1) - 1
		if i < 0 || i >= len(m.parts) {
			return nil, 0, fmt.Errorf("read chunk %d of %d: no such chunk", c.Chunk, m.chunks[len(m.parts)])
		}
		own := batch.ChunkRanges{Chunk: c.Chunk - m.chunks[i], Ranges: slices.Clone(c.Ranges)}
		for k, r := range c.Ranges {
			own.Ranges[k].Seq = len(seqs[i])
			seqs[i] = append(seqs[i], r.Seq)
			total = max(total, r.Seq+1)
		}
		wanted[i] = append(wanted[i], own)
	}
	for i, list := range wanted {
		if list == nil {
			continue
		}
		h := &helping{part: i, source: m.parts[i].Source, seqs: seqs[i]}
		if i < len(at.Parts) {
			h.at = at.Parts[i]
		}
		if h.batch, err = h.source.newBatch(list); err != nil {
			return nil, 0, m.named(h, err)
		}
		h.batch.tries = true
		all = append(all, h)
	}
	for _, o := range m.byPath(all) {
		if err := o.path.couldHold(o.bytes); err != nil {
			return nil, 0, err
		}
	}
	return all, total, nil
}

// ofPath is what a batch takes of the sources in one path.
type ofPath struct {
	path  *Path
	some  []*helping
	bytes int64
}

// byPath sorts the parts of a batch by path, in the order in which memory is waited for.
func (m *Mixture) byPath(all []*helping) (out []ofPath) {
	for _, p := range m.paths {
		o := ofPath{path: p}
		for _, h := range all {
			if h.source.path == p {
				o.some, o.bytes = append(o.some, h), o.bytes+h.batch.bytes
			}
		}
		if o.some != nil {
			out = append(out, o)
		}
	}
	return out
}

// bring brings all parts of a batch, or none. giveBack ends the use of the memory that their bodies share.
func (m *Mixture) bring(ctx context.Context, all []*helping) (giveBack func(), err error) {
	err = m.sideBySide(ctx, all)
	if !errors.Is(err, chunkcache.ErrNoRoom) {
		return func() {}, err
	}
	var bodies []room
	giveBack = func() {
		for _, body := range bodies {
			body.close()
		}
	}
	for _, o := range m.byPath(all) {
		leave, body, err := o.lend(ctx)
		defer leave() // once all is brought
		if err != nil {
			giveBack()
			return nil, err
		}
		bodies = append(bodies, body)
	}
	if err = m.sideBySide(ctx, all); err != nil {
		giveBack()
	}
	return giveBack, err
}

// sideBySide brings all parts of a batch at once, or none. The first error ends the others, of which it is none of their own: what an
// errgroup would give them as the cause of their end.
func (m *Mixture) sideBySide(ctx context.Context, all []*helping) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, failed := errgroup.WithContext(ctx)
	context.AfterFunc(failed, cancel)
	for _, h := range all {
		g.Go(func() (err error) {
			if h.body, err = h.source.bring(ctx, h.at, h.batch); err != nil {
				return m.named(h, err)
			}
			return nil
		})
	}
	err := g.Wait()
	for _, h := range all {
		if err != nil && h.body != nil {
			h.body.Close()
			h.body = nil
		}
	}
	return err
}

// lend takes memory for the parts of one path in one step, and a turn to ask peers for them, which ends with leave.
func (o *ofPath) lend(ctx context.Context) (leave func(), body room, err error) {
	var far int64
	for _, h := range o.some {
		if h.source.name != "" {
			far += h.batch.bytes
		}
	}
	leave = func() {}
	if far > 0 {
		leave = o.path.askLimit.enter(ctx, far)
	}
	if body, err = o.path.room(ctx, o.path.withGaps(o.bytes), true); err == nil {
		o.share(body)
	}
	return leave, body, err
}

// share lends memory to the parts: to each as much as it has, and of what is left an eighth more as far as that reaches.
func (o *ofPath) share(body room) {
	spare := int64(len(body.bytes)) - o.bytes
	for _, h := range o.some {
		more := min(h.batch.bytes/8, spare)
		n := h.batch.bytes + more
		h.batch.lent, spare = body, spare-more
		h.batch.lent.bytes, body.bytes = body.bytes[:n:n], body.bytes[n:]
	}
}

// named gives an error of a source its name, and its shard the number and the name that it has in the mixture.
func (m *Mixture) named(h *helping, err error) error {
	if e, ok := errors.AsType[*chunkindex.RangeError](err); ok {
		moved := *e
		moved.Shard += m.shards[h.part]
		moved.Key = m.parts[h.part].Name + "/" + e.Key
		err = &moved
	}
	return fmt.Errorf("source %s: %w", m.parts[h.part].Name, err)
}

// addTiers adds what the tiers did for one source to what they did for others, which were read at the same time.
func addTiers(all, more []batch.TierTime) []batch.TierTime {
next:
	for _, t := range more {
		for i := range all {
			if all[i].Tier == t.Tier {
				all[i].Bytes += t.Bytes
				all[i].Wait = max(all[i].Wait, t.Wait)
				continue next
			}
		}
		all = append(all, t)
	}
	return all
}

// Warm is not asked of a mixture, but of its sources.
func (m *Mixture) Warm(context.Context, shuffle.Cursor) (batch.Warmed, error) {
	return batch.Warmed{}, errors.New("a mixture is warmed by its sources")
}
