package datapath

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/pause"
)

// formerWait is how long a peer may take for a chunk that it is thought to have: then the store is asked.
const formerWait = 2 * time.Second

// former returns a peer that may have a chunk which has come to this gateway lately, "" if none is known, or if that one has had
// nothing of late. It is called under the cache's lock.
func (f *fetch) former(chunk int) string {
	s := f.source
	switch {
	case f.from != "":
		return f.from
	case s.name == "" || s.owner(chunk) != "":
		return ""
	}
	member := s.path.cfg.Peers.Former(s.peerChunk(chunk))
	if member != "" && s.path.formers.silent.Paused(member, time.Now()) {
		return ""
	}
	return member
}

const (
	formerMisses = 4               // chunks one after another that a former owner did not send, and
	formerRests  = 2 * time.Second // for so long it is not asked: where all gateways are new, none has anything
)

// formers is the tier of the gateways that held chunks before they came to this one.
type formers struct {
	next   tier
	silent *pause.List[string] // the members that had nothing to send
}

func newFormers(next tier) formers {
	return formers{next, pause.NewList[string](pause.Rule{Failures: formerMisses, First: formerRests})}
}

// Load asks the former owner of a chunk for all of it.
func (f *formers) Load(ctx context.Context, l *load, fills []*fill) error {
	if l.fetch != nil && len(fills) == 1 && l.fetch.fromPeer(ctx, fills[0].whole) {
		return nil
	}
	return f.next.Load(ctx, l, fills)
}

// fromPeer brings a chunk from the gateway that held it before, and reports whether it did. That one sends what is in its memory or on
// its disk: it asks nobody, loads nothing and waits for no load. So nobody can wait for each other in a circle, also where
// this chunk is loaded to answer a peer.
func (f *fetch) fromPeer(ctx context.Context, fill *chunkcache.Fill[key]) (sent bool) {
	s, chunk := f.source, f.numbers[fill.Index]
	member := f.former(chunk)
	if member == "" {
		return false
	}
	defer func() {
		if silent := s.path.formers.silent; sent {
			silent.Forget(member)
		} else {
			silent.Failed(member, time.Now())
		}
	}()
	p, dst, desc := s.path, fill.Bytes(), s.index.Chunk(chunk)
	q := &peer.Query{
		Dataset: s.name, Generation: s.index.Generation(), Cached: true,
		Chunks: []peer.Wanted{{Chunk: chunk, Digest: desc.Digest, Ranges: []chunkindex.Range{{Length: uint32(len(dst))}}}},
	}
	ctx, cancel := context.WithTimeout(ctx, formerWait)
	defer cancel()
	p.asked.reads.Add(1)
	if err := p.cfg.Peers.Read(ctx, member, q, [][]byte{dst}, nil); err != nil {
		if !errors.Is(err, peer.ErrNotHere) {
			p.asked.failed.Add(1)
		}
		f.missed()
		return false
	}
	p.asked.bytes.Add(uint64(len(dst)))
	if !s.intact(desc, dst, checksum(dst)) {
		p.asked.lies.Add(1)
		p.cfg.Peers.Lied(member)
		f.missed()
		return false
	}
	p.asked.former.Add(1)
	fill.Publish()
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
		if p.cfg.Peers.Owner(c) != "" || s.Resident(c.Number) || s.isOnDisk(c.Number) {
			continue
		}
		if p.gate.enterWarm(ctx) != nil {
			return
		}
		if over.Load() || p.free() < s.Cost(c.Number) {
			p.gate.leaveWarm(true)
			return
		}
		f := &fetch{source: s, held: p.gate, from: member, refused: &over}
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
