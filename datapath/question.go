package datapath

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// mostAsked is how many members are asked for a sample at most: its owner, and the next choices
// where that one fails or is late. With two failing at once the third keeps what it brings; to read
// samples from the store instead would cost as many reads as there are samples.
const mostAsked = 3

// errNothing says that nothing could be brought instead of a member.
var errNothing = errors.New("nothing came from elsewhere either")

// question asks the last of some members, the others of which have failed or are late, for samples
// of some chunks. Where the member fails or is late, the next choices are asked. It returns how
// many bytes are there, and what is not. What is wrong is asked of nobody else.
func (a *asker) question(ctx context.Context, chunks []chunkindex.ChunkRanges, asked ...string) (n int64, lost []chunkindex.ChunkRanges) {
	p, member := a.source.path, asked[len(asked)-1]
	q, dst := a.query(chunks)
	limited, cancel := partOf(ctx)
	defer cancel()
	d := &detour{asker: a, chunks: chunks, asked: asked, lost: chunks}
	defer d.close()
	p.asked.reads.Add(1)
	err := p.cfg.Peers.Read(limited, member, q, dst, func(during context.Context, beside bool) error {
		if beside {
			return d.beside(during)
		}
		return d.after(ctx)
	})
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // nobody wants to know any more
			p.asked.failed.Add(1)
		}
		if errors.Is(err, peer.ErrOutdone) {
			d.take()
		}
		return d.bytes, d.lost
	}
	for _, b := range dst {
		p.asked.bytes.Add(uint64(len(b)))
	}
	if n, lost = a.check(chunks); len(lost) > 0 {
		p.asked.lies.Add(1)
		p.cfg.Peers.Lied(member)
	}
	return n, lost
}

// detour brings samples from elsewhere that a member was asked for.
type detour struct {
	*asker
	chunks []chunkindex.ChunkRanges
	asked  []string
	buffer *chunkcache.Buffer[key] // of what comes while the member may still write to the segments; nil: nothing does
	apart  [][]byte                // segments in it, by Seq
	bytes  int64                   // that are there
	lost   []chunkindex.ChunkRanges
}

// after brings samples when the member has failed, as far as other members have them.
func (d *detour) after(ctx context.Context) error {
	d.bytes, d.lost = d.others(ctx, d.asker, func(chunks []chunkindex.ChunkRanges) (int64, []chunkindex.ChunkRanges) { return 0, chunks })
	if d.bytes == 0 {
		return errNothing
	}
	return nil
}

// beside brings samples while the member is still at it, into memory of its own. It does without
// where there is none now: memory is not waited for while some is held.
func (d *detour) beside(ctx context.Context) error {
	b := &batch{chunks: d.chunks}
	b = b.of(d.chunks)
	buffer, ok := d.source.path.cache.TryBuffer(b.bytes)
	if !ok {
		return errNothing
	}
	d.buffer, d.apart = buffer, make([][]byte, len(d.segments))
	b.lay(d.apart, buffer.Bytes())
	other := *d.asker
	other.segments = d.apart
	bytes, lost := d.others(ctx, &other, func(chunks []chunkindex.ChunkRanges) (int64, []chunkindex.ChunkRanges) {
		return other.here(ctx, chunks)
	})
	if len(lost) > 0 {
		return errNothing
	}
	d.bytes, d.lost = bytes, nil
	return nil
}

// others asks the next choices, side by side. What is this gateway's own then, or was asked of
// enough members, is brought by here.
func (d *detour) others(ctx context.Context, a *asker, here func([]chunkindex.ChunkRanges) (int64, []chunkindex.ChunkRanges)) (int64, []chunkindex.ChunkRanges) {
	members, groups := byMember(d.chunks, func(i int) string {
		if len(d.asked) == mostAsked || ctx.Err() != nil {
			return ""
		}
		return a.source.path.cfg.Peers.Owner(a.source.peerChunk(d.chunks[i].Chunk), d.asked...)
	})
	return a.each(members, func(m string) (int64, []chunkindex.ChunkRanges) {
		if m == "" {
			return here(groups[m])
		}
		return a.question(ctx, groups[m], append(d.asked[:len(d.asked):len(d.asked)], m)...)
	})
}

// here brings samples by the ways of this gateway: their chunks as a whole where there is room.
func (a *asker) here(ctx context.Context, chunks []chunkindex.ChunkRanges) (int64, []chunkindex.ChunkRanges) {
	s := a.source
	b := &batch{segments: len(a.segments), reader: a.reader, origin: afterPeers, fits: s.path.fits(s, time.Now())}
	b = b.of(chunks)
	whole, ranged := s.sort(b)
	if _, err := s.into(ctx, b, whole, ranged, a.segments, nil); err != nil {
		return 0, chunks
	}
	return b.bytes, nil
}

// take puts what has come beside the member where it belongs. The member writes no more.
func (d *detour) take() {
	if d.buffer == nil || d.lost != nil {
		return
	}
	for _, c := range d.chunks {
		for _, r := range c.Ranges {
			copy(d.segments[r.Seq], d.apart[r.Seq])
		}
	}
}

func (d *detour) close() {
	if d.buffer != nil {
		d.buffer.Close()
	}
}
