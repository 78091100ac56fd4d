package datapath

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
)

// portion is the unit of a store read that has a checksum: a whole chunk, or one sample.
type portion struct {
	chunk    int
	layout   layout
	offset   int64    // offset in the chunk's stored bytes
	stored   []byte   // the bytes as stored
	data     []byte   // the decoded bytes; the same memory unless the chunk is compressed
	crc      uint32   // checksum of a sample
	whole    bool     // the portion is a chunk
	gates    []*gate  // a read takes a place of each gate; none: the caller holds a place for all reads
	receiver receiver // nil: only the caller of the read waits for the portion

	pieces int          // number of pieces that it is read in
	left   atomic.Int32 // number of pieces that have not arrived
	right  bool         // the portion has arrived with the right checksum; its bytes do not change any more
}

// receiver is notified of the result of one portion.
type receiver interface {
	Publish()       // called when the portion is right; other portions may not have arrived
	Fail(err error) // called when the portion cannot be read
	Needed() bool   // reports whether to retry the portion separately; once false it stays false
}

// whole returns the portion for a whole chunk. The stored bytes of a compressed chunk go to extra.
func (s *Source) whole(chunk int, data, extra []byte) *portion {
	p := &portion{chunk: chunk, layout: s.layout(chunk), stored: data, data: data, whole: true, gates: []*gate{s.path.gate}}
	if desc := s.index.Chunk(chunk); desc.Codec != codec.None {
		p.stored = extra[:desc.Stored]
	}
	return p
}

// samples lists the samples of some fills in stored order.
func (s *Source) samples(of *load, fills []*fill) []*portion {
	n := 0
	for _, x := range fills {
		n += len(x.Ranges)
	}
	all, list := make([]portion, n), make([]*portion, 0, n)
	for _, x := range fills {
		l := s.layout(x.Chunk)
		gates := s.gates(x.Chunk, of)
		for _, r := range x.Ranges {
			if r.Length > 0 {
				p, is := &all[len(list)], x.samples[r.Seq]
				p.chunk, p.layout, p.offset, p.crc, p.gates = x.Chunk, l, int64(r.Offset), r.CRC32C, gates
				p.stored, p.data, p.receiver = is.data, is.data, is
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b *portion) int {
		return cmp.Or(a.chunk-b.chunk, cmp.Compare(a.offset, b.offset), len(a.data)-len(b.data))
	})
	return list
}

// gates returns the gates at which a read of a chunk's samples takes places.
func (s *Source) gates(chunk int, of *load) []*gate {
	p := s.path
	switch {
	case of.alone:
		return []*gate{p.first}
	case s.objects(chunk) > 1 && p.readers.NextUse(s, chunk).Soon: // prefetch also reads the samples, with their chunk
		return []*gate{p.lone, p.gate}
	}
	return []*gate{p.gate}
}

// read reads portions, and reads those with a wrong checksum a second time. A portion that is wrong
// twice is not published. read does not retry failed store reads, because s3backend does. One store
// read is at most part bytes long; the gaps between portions go to the spare memory.
func (s *Source) read(ctx context.Context, portions []*portion, part int64, spare []byte) error {
	wrong := portions
	for range 2 {
		ps := make([]piece, 0, len(wrong))
		for _, p := range wrong {
			n := len(ps)
			ps = p.layout.pieces(ps, p, part, s.path.cfg.PartSize)
			p.pieces = len(ps) - n
			p.left.Store(int32(p.pieces))
			if p.pieces == 0 { // no bytes
				if err := s.accept(ctx, &piece{of: p}); err != nil {
					return err
				}
			}
		}
		if err := s.readStretches(ctx, join(ps, part, spare)); err != nil {
			return err
		}
		wrong = slices.DeleteFunc(slices.Clone(portions), func(p *portion) bool { return p.right })
		if len(wrong) == 0 {
			break
		}
	}
	return nil
}

// readEach reads portions for their receivers: each portion is published or fails. It returns an
// error if any of them fails. If a store read of several portions fails, any of them may be the
// cause. So the portions whose receiver needs a retry are then read separately.
func (s *Source) readEach(ctx context.Context, portions []*portion, part int64, spare []byte) (err error) {
	failed := s.read(ctx, portions, part, spare)
	left := slices.DeleteFunc(slices.Clone(portions), func(p *portion) bool { return p.right })
	if len(left) < 2 || !local(failed) {
		for _, p := range left {
			err = s.fail(ctx, p, failed)
		}
		return err
	}
	return s.concurrently(new(errgroup.Group), left[0].gates, len(left), func(i int) error {
		again := failed
		if left[i].receiver.Needed() {
			again = s.read(ctx, left[i:i+1], part, nil)
		}
		return s.fail(ctx, left[i], again)
	})
}

// fail reports an error to the receiver of a portion, unless the portion is right. err is the error
// of the read. It returns the error of the portion.
func (s *Source) fail(ctx context.Context, p *portion, err error) error {
	if p.right {
		return nil
	}
	if err == nil {
		err = s.corrupt(ctx, p)
	}
	p.receiver.Fail(err)
	return err
}

// local reports whether an error may concern only one range of an object, so that other ranges may
// be readable. A store that is unavailable as a whole returns the same errors, but the backend
// rejects further reads at once when its breaker is open. Other errors concern the object or the
// whole store.
func local(err error) bool {
	return errors.Is(err, objstore.ErrUnavailable) || errors.Is(err, objstore.ErrTimeout) || errors.Is(err, objstore.ErrShort)
}

// readStretches makes one store read for each stretch, concurrently. The first one that fails
// cancels the others.
func (s *Source) readStretches(ctx context.Context, stretches []stretch) error {
	switch len(stretches) {
	case 0:
		return nil
	case 1:
		return s.readStretch(ctx, &stretches[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	return s.concurrently(g, stretches[0].pieces[0].of.gates, len(stretches), func(i int) error { return s.readStretch(ctx, &stretches[i]) })
}

// concurrently calls read for each of n reads, limited by the places of the gates. Without gates
// the caller holds a place for a prefetch: the reads share that place, and take more only if they
// are free.
func (s *Source) concurrently(g *errgroup.Group, gates []*gate, n int, read func(i int) error) (err error) {
	places := s.path.gate.places()
	if gates == nil {
		most := places
		for places = 1; places < n && s.path.gate.enterAhead(most); {
			places++
		}
		defer func() {
			for range places - 1 {
				s.path.gate.leaveAhead(err != nil)
			}
		}()
	}
	g.SetLimit(places)
	for i := range n {
		g.Go(func() error { return read(i) })
	}
	return g.Wait()
}

// readStretch makes one store read, and checks each portion as soon as its bytes have arrived. It
// checks portions that end with the stretch after the read has returned its place.
func (s *Source) readStretch(ctx context.Context, r *stretch) error {
	var unread error // an error in reading the index
	length := r.ext().Length
	err := s.readRange(ctx, r, func(n int64) {
		if r.filled(n); n < length && unread == nil {
			unread = s.checkFilled(ctx, r)
		}
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil { // canceled by the reader
			return cause
		}
		return s.rangeError(r.ext(), err)
	}
	if unread != nil {
		return unread
	}
	if !r.pieces[0].of.whole {
		s.path.rangeBytes.Add(uint64(length))
	}
	r.filled(length)
	return s.checkFilled(ctx, r)
}

// checkFilled checks the portions whose last piece has arrived since the last call.
func (s *Source) checkFilled(ctx context.Context, r *stretch) error {
	for ; r.checked < r.next; r.checked++ {
		p := &r.pieces[r.checked]
		if p.of.left.Add(-1) > 0 {
			continue
		}
		if err := s.accept(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// accept checks a portion whose last piece has arrived, and publishes it if it is right.
func (s *Source) accept(ctx context.Context, last *piece) (err error) {
	p := last.of
	if p.right, err = s.check(ctx, last); p.right && p.receiver != nil {
		p.receiver.Publish()
	}
	return err
}

// readRange reads the bytes of a stretch from the version of the shard that the index is bound to.
// It calls filled with the number of bytes that have arrived so far.
func (s *Source) readRange(ctx context.Context, r *stretch, filled func(n int64)) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	s.reads.open.Add(1)
	defer s.reads.open.Add(-1)
	for _, g := range r.pieces[0].of.gates {
		if err := g.enter(ctx, s.store); err != nil {
			return err
		}
		defer g.leave(s.store)
	}
	if !r.pieces[0].of.whole {
		s.path.rangeReads.Add(1)
	}
	ext := r.ext()
	shard := s.index.Shard(ext.Shard)
	ref := objstore.Ref{Key: s.prefix + shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
	s.reads.reads.Add(1)
	if s.paced {
		s.path.gate.hold(true)
		defer s.path.gate.hold(false)
	}
	m := s.path.rates.begin(s.reads)
	reporting := objstore.WithProgress(ctx, func(n int64) {
		m.filled(n)
		filled(n)
	})
	err := s.store.ReadRange(reporting, ref, ext.Offset, r.into()...)
	if errors.Is(err, objstore.ErrThrottled) || errors.Is(err, objstore.ErrTimeout) {
		s.path.gate.slower()
	}
	if err != nil {
		return err
	}
	m.ended(ext.Length, s.paced)
	return nil
}

// check reports whether a portion matches the index. last is its last piece. It returns an error if
// the index cannot be read.
func (s *Source) check(ctx context.Context, last *piece) (bool, error) {
	p := last.of
	desc := s.index.Chunk(p.chunk)
	if desc.Codec != codec.None {
		err := s.index.Decode(ctx, p.chunk, p.stored, p.data)
		if errors.Is(err, chunkindex.ErrCorrupt) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	sum := last.crc
	if p.pieces > 1 || desc.Codec != codec.None {
		sum = checksum(p.data)
	}
	if p.whole {
		return s.intact(desc, p.data, sum), nil
	}
	return sum == p.crc, nil
}

func (s *Source) rangeError(ext chunkindex.Extent, err error) error {
	return &chunkindex.RangeError{
		Shard: ext.Shard, Key: s.index.Shard(ext.Shard).Key,
		Offset: ext.Offset, Length: ext.Length, Err: err,
	}
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }
