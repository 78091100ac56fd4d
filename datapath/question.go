package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
)

const (
	// mostAsked is the maximum number of members asked for a sample: its owner, then the next
	// choices if the owner fails or is late. If two fail at once, the third keeps the chunk
	// that it loads. Reading samples from the store instead would cost one read per sample.
	mostAsked = 3
	// peerPart is the divisor of a request's remaining time that gives the timeout of one query
	// to a peer: the retry after the query needs time too.
	peerPart = 2
)

// errUnsent reports that no gateway has sent some samples.
var errUnsent = errors.New("no gateway has sent the samples")

// ownersTier asks the gateways that own chunks for samples of one batch, and the next choices if an
// owner fails or is late. The next tier loads the samples that no gateway sends.
type ownersTier struct {
	batch *request // the batch that the samples belong to
	next  tier
}

// Load sends a query to each member that owns some of the samples, concurrently.
func (o ownersTier) Load(ctx context.Context, l *load, fills []*fill) error {
	groups := map[string][]*fill{} // keyed by the member to ask; "": none
	for _, x := range fills {
		member := o.choice(ctx, l.source, x.Chunk)
		groups[member] = append(groups[member], x)
	}
	var mu sync.Mutex // guards l.came
	var running errgroup.Group
	for member, group := range groups {
		running.Go(func() (err error) {
			part := &load{source: l.source}
			if member == "" {
				err = o.next.Load(ctx, part, group)
			} else {
				err = o.ask(ctx, part, member, group)
			}
			mu.Lock()
			defer mu.Unlock()
			l.came.add(part.came)
			return err
		})
	}
	return running.Wait()
}

// choice returns the member to ask for a chunk: its owner, or the next choice after the members
// that were asked. It returns "" if this gateway is the next choice, or mostAsked members were
// asked.
func (o ownersTier) choice(ctx context.Context, s *Source, chunk int) string {
	switch {
	case len(o.batch.asked) == 0:
		return s.owner(chunk)
	case len(o.batch.asked) < mostAsked && ctx.Err() == nil:
		return s.path.cfg.Peers.Owner(s.peerChunk(chunk), o.batch.asked...)
	}
	return ""
}

// ask asks one member, and the next choices if that one fails or is late.
func (o ownersTier) ask(ctx context.Context, l *load, member string, fills []*fill) error {
	s := l.source
	q := &peer.Query{Dataset: s.name, Generation: s.index.Generation(), Reader: o.batch.reader, Chunks: make([]peer.ChunkQuery, 0, len(fills))}
	var dst [][]byte
	for _, x := range fills {
		q.Chunks = append(q.Chunks, peer.ChunkQuery{Chunk: x.Chunk, Digest: s.index.Chunk(x.Chunk).Digest, Ranges: spans(x.Ranges)})
		for _, r := range x.Ranges {
			dst = append(dst, x.memory(r))
		}
	}
	others := *o.batch
	others.asked = append(slices.Clone(o.batch.asked), member)
	var hedged *assembly
	rest := func() error { return o.next.Load(ctx, l, fills) }
	limited, cancel := partOf(ctx)
	defer cancel()
	err := s.path.read(limited, member, q, dst, func(during context.Context, late bool) (err error) {
		if late {
			a, err := ownersTier{batch: &others}.hedge(during, s, fills)
			if err == nil {
				hedged = a
			}
			return err
		}
		err = ownersTier{&others, o.next}.Load(ctx, l, fills)
		rest = func() error { return err } // the next tier has loaded them already
		if l.came.peer == 0 {
			return errUnsent
		}
		return nil
	})
	if hedged != nil {
		defer hedged.close()
	}
	switch {
	case err == nil:
		return o.check(ctx, l, member, fills)
	case hedged == nil || !errors.Is(err, peer.ErrOutdone):
		return rest()
	}
	l.came.add(hedged.parts[0].came)
	for _, x := range fills {
		for _, r := range x.Ranges {
			copy(x.memory(r), hedged.segments[r.Seq])
		}
		x.publish()
	}
	return nil
}

// hedge gets samples from other members if a member is late. It uses separate memory, since the
// late member may still write to the original memory. It does not wait for memory while the batch
// holds some. Without memory, the batch waits for the late member only.
func (o ownersTier) hedge(ctx context.Context, s *Source, fills []*fill) (*assembly, error) {
	late := o.batch.of(chunksOf(fills))
	late.origin, late.visit, late.segments = afterPeers, nil, len(fills[0].samples)
	a := assemblyOf(part{source: s, request: late, near: &request{}, far: *late, tries: true})
	return a, a.assemble(ctx, manner{})
}

// spans converts the ranges of samples in a chunk to those of a query.
func spans(ranges []batch.Range) []peer.Range {
	out := make([]peer.Range, len(ranges))
	for i, r := range ranges {
		out[i] = peer.Range{Offset: r.Offset, Length: r.Length}
	}
	return out
}

// check compares each sample that a member sent with the index. Samples that differ are read by the
// next tier; no other member is asked for them.
func (o ownersTier) check(ctx context.Context, l *load, member string, fills []*fill) error {
	var wrong []*fill
	for _, x := range fills {
		var bad []batch.Range
		for _, r := range x.Ranges {
			if checksum(x.memory(r)) == r.CRC32C {
				l.came.peer += int64(r.Length)
				x.samples[r.Seq].Publish()
			} else {
				bad = append(bad, r)
			}
		}
		if bad != nil {
			wrong = append(wrong, &fill{ChunkRanges: batch.ChunkRanges{Chunk: x.Chunk, Ranges: bad}, samples: x.samples})
		}
	}
	if wrong == nil {
		return nil
	}
	l.source.path.lied(member)
	return o.next.Load(ctx, l, wrong)
}

// hereTier reads samples of chunks that other gateways own as if this gateway owned them: from
// whole chunks if that pays and there is room, otherwise by their ranges.
type hereTier struct{ batch *request }

func (h hereTier) Load(ctx context.Context, l *load, fills []*fill) error {
	s, b := l.source, h.batch.of(chunksOf(fills))
	b.origin = afterPeers
	s.path.reown() // after reown, this gateway treats chunks that it now owns as its own
	whole, ranged := s.chooseReads(b)
	return l.into(ctx, b, whole, ranged, fills[0].samples)
}

// unsentTier is a tier that records the samples instead of loading them.
type unsentTier struct {
	mu    sync.Mutex // guards fills
	fills []*fill
}

func (u *unsentTier) Load(_ context.Context, _ *load, fills []*fill) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fills = append(u.fills, fills...)
	return errUnsent
}

// chunksOf returns the chunk ranges of fills. It sorts both by chunk.
func chunksOf(fills []*fill) []batch.ChunkRanges {
	slices.SortFunc(fills, func(a, b *fill) int { return a.Chunk - b.Chunk })
	chunks := make([]batch.ChunkRanges, len(fills))
	for i, x := range fills {
		chunks[i] = x.ChunkRanges
	}
	return chunks
}

// partOf returns a context that ends after a fraction of the remaining time (peerPart).
func partOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/peerPart)
}

// peerCounts counts the queries between this gateway and others.
type peerCounts struct {
	reads, bytes, failed, lies, servedReads, servedBytes, former atomic.Uint64
}

func (c *peerCounts) fill(s *Stats) {
	s.PeerReads, s.PeerBytes, s.PeerFailed, s.PeerLies = c.reads.Load(), c.bytes.Load(), c.failed.Load(), c.lies.Load()
	s.PeerServedReads, s.PeerServedBytes, s.FormerChunks = c.servedReads.Load(), c.servedBytes.Load(), c.former.Load()
}

// read sends a query to a member, and counts the result.
func (p *Path) read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error {
	p.peerCounts.reads.Add(1)
	err := p.cfg.Peers.Read(ctx, member, q, dst, instead)
	switch {
	case err == nil:
		for _, b := range dst {
			p.peerCounts.bytes.Add(uint64(len(b)))
		}
	case errors.Is(err, peer.ErrNotHere), errors.Is(err, peer.ErrQuota), errors.Is(ctx.Err(), context.Canceled):
	default:
		p.peerCounts.failed.Add(1)
	}
	return err
}

// lied records that a member sent bytes that differ from the index.
func (p *Path) lied(member string) {
	p.peerCounts.lies.Add(1)
	p.cfg.Peers.Lied(member)
}
