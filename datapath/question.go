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

// question asks the last member of asked for samples of some chunks; those before it have failed or are
// late. If the member fails or is late, the next choices are asked. question returns how many bytes have
// come, and which samples have not. Samples that came wrong are lost: no other member is asked for them.
func (a *asker) question(ctx context.Context, chunks []chunkindex.ChunkRanges, asked ...string) (n int64, lost []chunkindex.ChunkRanges) {
	p, member := a.source.path, asked[len(asked)-1]
	q, dst := a.query(chunks)
	limited, cancel := partOf(ctx)
	defer cancel()
	d := &detour{asker: a, chunks: chunks, asked: asked, lost: chunks}
	defer d.close()
	err := p.read(limited, member, q, dst, func(during context.Context, beside bool) error {
		if beside {
			return d.beside(during)
		}
		return d.after(ctx)
	})
	if err != nil {
		if errors.Is(err, peer.ErrOutdone) {
			d.take()
		}
		return d.bytes, d.lost
	}
	if n, lost = a.check(chunks); len(lost) > 0 {
		p.lied(member)
	}
	return n, lost
}

// read asks a member, and counts what becomes of that.
func (p *Path) read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error {
	p.asked.reads.Add(1)
	err := p.cfg.Peers.Read(ctx, member, q, dst, instead)
	switch {
	case err == nil:
		for _, b := range dst {
			p.asked.bytes.Add(uint64(len(b)))
		}
	case !errors.Is(err, peer.ErrNotHere) && !errors.Is(ctx.Err(), context.Canceled): // else nobody wants to know any more
		p.asked.failed.Add(1)
	}
	return err
}

// lied notes that what a member sent was not what the index says.
func (p *Path) lied(member string) {
	p.asked.lies.Add(1)
	p.cfg.Peers.Lied(member)
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
	d.bytes, d.lost = d.ask(ctx, d.chunks, nil, d.asked...)
	if d.bytes == 0 {
		return errNothing
	}
	return nil
}

// beside brings samples while the member is still at it, into memory of its own. It does without
// where there is none now: memory is not waited for while some is held.
func (d *detour) beside(ctx context.Context) error {
	b := (&batch{}).of(d.chunks)
	buffer, ok := d.source.path.cache.TryBuffer(b.bytes)
	if !ok {
		return errNothing
	}
	d.buffer, d.apart = buffer, make([][]byte, len(d.segments))
	b.lay(d.apart, buffer.Bytes())
	other := *d.asker
	other.segments = d.apart
	bytes, lost := other.ask(ctx, d.chunks, other.here, d.asked...)
	if len(lost) > 0 {
		return errNothing
	}
	d.bytes, d.lost = bytes, nil
	return nil
}

// here brings samples as this gateway brings its own: from whole chunks if there is room, else by their ranges.
func (a *asker) here(ctx context.Context, chunks []chunkindex.ChunkRanges) (int64, []chunkindex.ChunkRanges) {
	s := a.source
	b := &batch{segments: len(a.segments), reader: a.reader, origin: afterPeers, fits: s.path.fits(s, time.Now())}
	b = b.of(chunks)
	whole, ranged := s.chooseReads(b)
	if _, err := s.into(ctx, b, whole, ranged, a.segments, nil); err != nil {
		return 0, chunks
	}
	return b.bytes, nil
}

// take copies what has come beside the member into the batch's segments. The member writes to them no more.
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
