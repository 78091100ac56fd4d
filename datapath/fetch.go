package datapath

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

func (s *Source) key(chunk int) key {
	c := s.index.Chunk(chunk)
	return key{s.number, c.Digest, uint32(c.Length), c.CRC32C} // no chunk is longer than 1 GiB
}

// fetch brings chunks that one caller wants together.
type fetch struct {
	source *Source
	ahead  bool  // nobody waits for them yet, and the caller holds a place of the gate
	disk   bool  // that place is one of the disk's gate
	toDisk bool  // the caller writes them to disk
	first  bool  // for somebody who waits, and nothing was fetched ahead
	part   int64 // length of one store read, set by group

	plan    *shuffle.Plan // for whose reader; nil: for nobody's
	from    string        // the peer that is known to have them
	refused *atomic.Bool  // set if it does not send one; nil: nobody wants to know

	wants   []chunkcache.Want[key]
	numbers []int // in the index, ascending
	place   []int // of each chunk among wants: the same bytes under another name have one place
}

// want sets the chunks to bring.
func (f *fetch) want(chunks []int) {
	f.wants = make([]chunkcache.Want[key], 0, len(chunks))
	f.numbers = make([]int, 0, len(chunks))
	f.place = make([]int, len(chunks))
	seen := make(map[key]int, len(chunks))
	for n, c := range chunks {
		k := f.source.key(c)
		at, ok := seen[k]
		if !ok {
			at = len(f.wants)
			seen[k] = at
			f.wants = append(f.wants, chunkcache.Want[key]{Key: k, Size: f.source.index.Chunk(c).Length})
			f.numbers = append(f.numbers, c)
		}
		f.place[n] = at
		if f.source.number == 0 {
			f.source.path.homes.also(k, f.source, c)
		}
	}
}

func (f *fetch) request() chunkcache.Request[key] {
	return chunkcache.Request[key]{Wants: f.wants, Ahead: f.ahead, Group: f.group, Load: f.load}
}

// group lists which of the missing wants one store read brings, and by themselves those that are on disk.
func (f *fetch) group(missing []int) [][]int {
	chunks := make([]int, 0, len(missing))
	stored := make([]int, 0, len(missing)) // those of missing that the store has to bring
	var groups [][]int
	var total int64
	for _, i := range missing {
		if f.source.readsDisk(f.numbers[i]) || f.former(f.numbers[i]) != "" {
			groups = append(groups, []int{i})
			continue
		}
		chunks, stored = append(chunks, f.numbers[i]), append(stored, i)
		total += f.wants[i].Size
	}
	cfg := f.source.path.cfg
	f.part = cfg.PartSize
	if f.first {
		// The line is idle and somebody waits: use most of it. A part costs a request, so not too small.
		streams := int64(max(cfg.Fetchers-early(cfg.Fetchers), 1))
		f.part = min(f.part, max(total/streams, cfg.PartSize/8, 1))
	}
	for _, g := range f.source.group(chunks, f.part) {
		for n := range g {
			g[n] = stored[g[n]]
		}
		groups = append(groups, g)
	}
	return groups
}

// group joins chunks that lie side by side in one shard into lists that one store read of at most part bytes
// brings. The chunks are in ascending order.
func (s *Source) group(chunks []int, part int64) [][]int {
	var groups [][]int
	var end, size int64
	shard := -1
	for i, c := range chunks {
		ext := s.index.Extents(c)
		if len(ext) != 1 {
			groups, shard = append(groups, []int{i}), -1
			continue
		}
		e := ext[0]
		if e.Shard == shard && e.Offset == end && size+e.Length <= part {
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
			size += e.Length
		} else {
			groups, size = append(groups, []int{i}), e.Length
		}
		shard, end = e.Shard, e.Offset+e.Length
	}
	return groups
}

// load brings one group.
func (f *fetch) load(ctx context.Context, fills []*chunkcache.Fill[key]) error {
	s := f.source
	bufs := make([][]byte, len(fills))
	for i, fill := range fills {
		bufs[i] = fill.Bytes()
		s.path.homes.add(fill.Key(), s, f.numbers[fill.Index])
	}
	if len(fills) == 1 && (f.fromDisk(ctx, fills[0]) || f.fromPeer(ctx, fills[0])) {
		return nil
	}
	if err := context.Cause(ctx); err != nil { // given up while the disk was asked: the store need not hear of it
		return err
	}
	held := f.ahead && !f.disk
	first := f.numbers[fills[0].Index]
	sums := newSums(bufs)
	if parts := s.parts(first, f.part); len(fills) == 1 && len(parts) > 1 {
		if err := s.readParts(ctx, parts, bufs[0], held); err != nil {
			f.fail(ctx, fills[0], err)
			return err
		}
	} else if err := s.read(sums.follow(ctx), s.index.Extents(first)[0], held, bufs...); err != nil {
		for _, fill := range fills {
			f.fail(ctx, fill, s.rangeError(s.index.Extents(f.numbers[fill.Index])[0], err))
		}
		return err
	}
	for i, crc := range sums.finish() {
		fill := fills[i]
		if err := s.arrived(ctx, f.numbers[fill.Index], bufs[i], crc); err != nil {
			f.fail(ctx, fill, err)
			continue
		}
		fill.Publish()
		if !f.toDisk {
			s.keep(f.numbers[fill.Index])
		}
	}
	return nil
}

// fail ends a fill with an error, and first notes it, so that nobody who looks ahead finds the chunk missing and not
// noted. A load that its waiters have left says nothing of the store.
func (f *fetch) fail(ctx context.Context, fill *chunkcache.Fill[key], err error) {
	if ctx.Err() == nil {
		f.source.path.failed.add(time.Now(), fill.Key())
	}
	fill.Fail(err)
}

// arrived compares a chunk with its digests. Wrong bytes are asked for once more.
func (s *Source) arrived(ctx context.Context, chunk int, b []byte, crc uint32) error {
	if s.intact(chunk, b, crc) {
		return nil
	}
	if err := s.readParts(ctx, s.parts(chunk, s.path.cfg.PartSize), b, false); err != nil {
		return err
	}
	if s.intact(chunk, b, checksum(b)) {
		return nil
	}
	return s.rangeError(s.index.Extents(chunk)[0], chunkindex.ErrCorrupt)
}

func (s *Source) intact(chunk int, b []byte, crc uint32) bool {
	c := s.index.Chunk(chunk)
	return crc == c.CRC32C && (!s.path.cfg.CheckSHA || sha256.Sum256(b) == c.Digest)
}

// readParts reads the parts of one chunk side by side. held says that the caller holds a
// place of the gate, for a chunk fetched ahead: then the parts take turns in it, and in
// others only as far as nobody needs them.
func (s *Source) readParts(ctx context.Context, parts []chunkindex.Extent, b []byte, held bool) (err error) {
	places := 1
	for held && places < len(parts) && s.path.gate.enterAhead(s.path.gate.limit) {
		places++
	}
	if held {
		defer func() {
			for range places - 1 {
				s.path.gate.leaveAhead(err != nil)
			}
		}()
	}
	g, ctx := errgroup.WithContext(ctx)
	if held {
		g.SetLimit(places)
	}
	for _, p := range parts {
		dst := b[:p.Length]
		b = b[p.Length:]
		g.Go(func() error { return s.readPart(ctx, p, dst, held) })
	}
	return g.Wait()
}

// parts cuts a chunk into extents of about part bytes, never more than half as much again.
func (s *Source) parts(chunk int, part int64) []chunkindex.Extent {
	var parts []chunkindex.Extent
	for _, e := range s.index.Extents(chunk) {
		n := max((e.Length+part/2)/part, (e.Length+s.path.cfg.PartSize-1)/s.path.cfg.PartSize, 1)
		for i := range n {
			from, to := e.Length*i/n, e.Length*(i+1)/n
			parts = append(parts, chunkindex.Extent{Shard: e.Shard, Offset: e.Offset + from, Length: to - from})
		}
	}
	return parts
}

func (s *Source) readPart(ctx context.Context, part chunkindex.Extent, dst []byte, held bool) error {
	if err := s.read(ctx, part, held, dst); err != nil {
		return s.rangeError(part, err)
	}
	return nil
}

// read is one store read, from where ext begins, for all bytes of dst.
func (s *Source) read(ctx context.Context, ext chunkindex.Extent, held bool, dst ...[]byte) error {
	var n int
	for _, d := range dst {
		n += len(d)
	}
	if n == 0 {
		return nil
	}
	if !held {
		if err := s.path.gate.enter(ctx); err != nil {
			return err
		}
		defer s.path.gate.leave()
	}
	shard := s.index.Shard(ext.Shard)
	ref := objstore.Ref{Key: s.prefix + shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
	s.path.storeReads.Add(1)
	err := s.path.rates.timed(ctx, n, func(ctx context.Context) error { return s.store.ReadRange(ctx, ref, ext.Offset, dst...) })
	if err != nil {
		return err
	}
	s.path.storeBytes.Add(uint64(n))
	return nil
}

func (s *Source) rangeError(ext chunkindex.Extent, err error) error {
	return &chunkindex.RangeError{
		Shard: ext.Shard, Key: s.index.Shard(ext.Shard).Key,
		Offset: ext.Offset, Length: ext.Length, Err: err,
	}
}
