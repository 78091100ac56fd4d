package datapath

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/peer"
)

// formerWait is how long a peer may take for a chunk that it is thought to have: then the store is asked.
const formerWait = 2 * time.Second

// former returns a peer that may have a chunk which has come to this gateway lately, "" if none is known. What answers a peer asks
// none.
func (f *fetch) former(chunk int) string {
	s := f.source
	switch {
	case f.from != "":
		return f.from
	case s.name == "" || f.answers || s.owner(f.plan, chunk) != "":
		return ""
	}
	return s.path.cfg.Peers.Former(s.peerChunk(f.plan, chunk))
}

// fromPeer brings a chunk from the memory of the gateway that held it before, and reports whether it did. That one loads nothing for it, so
// nobody can wait for each other in a circle.
func (f *fetch) fromPeer(ctx context.Context, fill *chunkcache.Fill[key]) bool {
	s, chunk := f.source, f.numbers[fill.Index]
	member := f.former(chunk)
	if member == "" {
		return false
	}
	p, dst, desc := s.path, fill.Bytes(), s.index.Chunk(chunk)
	q := &peer.Query{
		Dataset: s.name, Generation: s.index.Generation(), Cached: true,
		Chunks: []peer.Wanted{{Chunk: chunk, Digest: desc.Digest, Ranges: []chunkindex.Range{{Length: uint32(len(dst))}}}},
	}
	ctx, cancel := context.WithTimeout(ctx, formerWait)
	defer cancel()
	p.asked.reads.Add(1)
	if err := p.cfg.Peers.Read(ctx, member, q, [][]byte{dst}); err != nil {
		p.asked.failed.Add(1)
		f.missed()
		return false
	}
	p.asked.bytes.Add(uint64(len(dst)))
	if !s.intact(chunk, dst, checksum(dst)) {
		p.asked.lies.Add(1)
		p.cfg.Peers.Lied(member)
		f.missed()
		return false
	}
	p.asked.former.Add(1)
	fill.Publish()
	if !f.toDisk {
		s.keep(chunk)
	}
	return true
}

// missed notes that the peer has not sent a chunk.
func (f *fetch) missed() {
	if f.refused != nil {
		f.refused.Store(true)
	}
}

// Pull brings chunks from a member that is leaving, those that are this gateway's from now on, in the order in which they are given, as far
// as memory is free. It ends when all are there, when ctx ends, or with the first chunk that the member does not send: that one
// comes from the store, for somebody may wait for it by then, and the others are left to whoever needs them.
func (p *Path) Pull(ctx context.Context, member string, chunks []peer.Chunk) {
	var running sync.WaitGroup
	defer running.Wait()
	var over atomic.Bool
	for _, c := range chunks {
		s := p.sharedAs(c.Dataset, c.Generation)
		if s == nil || c.Number < 0 || c.Number >= s.index.Chunks() || s.index.Chunk(c.Number).Digest != c.Digest {
			continue
		}
		if c.Of == 0 { // a list of what somebody holds has only numbers
			c = s.peerChunk(p.readers.AnyPlan(s), c.Number)
		}
		if p.cfg.Peers.Owner(c) != "" || s.Resident(c.Number) || s.isOnDisk(c.Number) {
			continue
		}
		if p.gate.enterWarm(ctx) != nil {
			return
		}
		if over.Load() || p.spare() < s.Cost(c.Number) {
			p.gate.leaveWarm(true)
			return
		}
		f := &fetch{source: s, ahead: true, from: member, refused: &over}
		f.want([]int{c.Number})
		wait, err := p.cache.Start(ctx, f.request())
		if err != nil {
			p.gate.leaveWarm(true)
			return
		}
		running.Go(func() {
			l, err := wait()
			if err == nil {
				l.Close()
			}
			p.gate.leaveWarm(err != nil)
		})
	}
}
