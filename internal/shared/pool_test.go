//go:build linux

package shared

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/internal/budget"
)

const length = 1 << 20

var alice = Purpose{Principal: "alice", Dataset: "photos"}

func newPool(t *testing.T, total int64) *Pool {
	t.Helper()
	p, err := New(budget.New(total, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// reader is the other end of a connection.
type reader struct {
	t      *testing.T
	lender *Lender
	mapped map[uint64][]byte
	ended  int
}

func newReader(t *testing.T, p *Pool) *reader {
	r := &reader{t: t, lender: p.Lender(), mapped: map[uint64][]byte{}}
	t.Cleanup(r.unmap)
	return r
}

func (r *reader) unmap() {
	for n := range r.mapped {
		r.drop(n)
	}
}

// drop unmaps a segment if it is mapped.
func (r *reader) drop(n uint64) {
	if b := r.mapped[n]; b != nil {
		if err := unix.Munmap(b); err != nil {
			r.t.Errorf("unmap segment %d: %v", n, err)
		}
		delete(r.mapped, n)
	}
}

// take lends a batch of n bytes and sets each byte to fill. It maps the segment if the segment is
// new. ok is false if the lease was refused.
func (r *reader) take(n int64, why Purpose, fill byte) (l Lease, ok bool) {
	r.t.Helper()
	l, ok = r.lender.Lend(n, why, func() { r.ended++ })
	if !ok {
		return l, false
	}
	for i := range l.Bytes[:n] {
		l.Bytes[i] = fill
	}
	for _, n := range l.Gone {
		r.drop(n)
	}
	if (l.Descriptor >= 0) == (r.mapped[l.Segment] != nil) {
		r.t.Fatalf("got descriptor %d for segment %d, with %d mapped", l.Descriptor, l.Segment, len(r.mapped))
	}
	if l.Descriptor >= 0 {
		b, err := unix.Mmap(l.Descriptor, 0, len(l.Bytes), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			r.t.Fatal(err)
		}
		r.mapped[l.Segment] = b
	}
	l.Sent(true)
	return l, true
}

func (r *reader) mustTake(n int64, why Purpose, fill byte) Lease {
	r.t.Helper()
	l, ok := r.take(n, why, fill)
	if !ok {
		r.t.Fatalf("a lease of %d bytes was refused: %+v", n, r.lender.pool.Stats())
	}
	return l
}

// sees checks that the reader sees a lease's bytes.
func (r *reader) sees(l Lease, n int64, fill byte) {
	r.t.Helper()
	if got := r.mapped[l.Segment][:n]; bytes.Count(got, []byte{fill}) != len(got) {
		r.t.Errorf("lease %d: got %x..., want all %x", l.Number, got[:8], fill)
	}
}

// wantStats checks the lent bytes and the number of segments after the pool has dropped unused
// ones.
func wantStats(t *testing.T, p *Pool, lent int64, segments int) {
	t.Helper()
	p.settle(time.Now())
	s := p.Stats()
	if s.Lent != lent || s.Segments != segments || p.budget.InUse() != s.Bytes || (segments == 0) != (s.Bytes == 0) {
		t.Errorf("got %+v and %d bytes of the budget, want %d bytes lent of %d segments", s, p.budget.InUse(), lent, segments)
	}
}

func TestLend_ReusesReleasedSegments(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	first := r.mustTake(length, alice, 1)
	second := r.mustTake(length, alice, 2)
	if first.Segment == second.Segment || first.Number == second.Number {
		t.Fatalf("got lease %d of segment %d twice", second.Number, second.Segment)
	}
	r.sees(first, length, 1)
	r.lender.Release([]uint64{first.Number, 99, first.Number})
	third := r.mustTake(length-1, alice, 3)
	if third.Segment != first.Segment || third.Number == first.Number {
		t.Errorf("got lease %d of segment %d, want the segment of lease %d again", third.Number, third.Segment, first.Number)
	}
	r.sees(second, length, 2)
	r.sees(third, length-1, 3)
	r.lender.Release([]uint64{first.Number}) // release it again, while its segment is lent again
	if fourth := r.mustTake(length, alice, 4); fourth.Segment == third.Segment {
		t.Errorf("an old number released a new lease")
	}
	r.sees(third, length-1, 3)
	wantStats(t, p, 3*int64(len(first.Bytes)), 3)
	if r.ended != 1 {
		t.Errorf("got %d leases over, want 1", r.ended)
	}
}

// TestLend_SeparatesPurposes: each principal, dataset and set of rules has its own segments.
func TestLend_SeparatesPurposes(t *testing.T) {
	for _, other := range []Purpose{{"bob", "photos", 0}, {"alice", "letters", 0}, {"alice", "photos", 1}} {
		p := newPool(t, 64<<20)
		r := newReader(t, p)
		first := r.mustTake(length, alice, 1)
		old := r.mapped[first.Segment]
		r.lender.Release([]uint64{first.Number})
		delete(r.mapped, first.Segment) // keep the first mapping
		l, ok := r.lender.Lend(length, other, func() {})
		if !ok || l.Segment == first.Segment || l.Descriptor < 0 || !slices.Equal(l.Gone, []uint64{first.Segment}) {
			t.Fatalf("%v: got segment %d, descriptor %d, gone %v", other, l.Segment, l.Descriptor, l.Gone)
		}
		copy(l.Bytes, "a secret")
		l.Sent(true)
		if bytes.Contains(old, []byte("a secret")) {
			t.Errorf("%v: an old descriptor shows %q", other, old[:8])
		}
		wantStats(t, p, int64(len(l.Bytes)), 1) // the reader has mapped only the first segment, so settle drops the second
		if err := unix.Munmap(old); err != nil {
			t.Fatal(err)
		}
		wantStats(t, p, 0, 0)
	}
}

// TestStats_CountHeldSegments: a dropped segment counts until the reader's process has unmapped it,
// even after the connection has ended.
func TestStats_CountHeldSegments(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	held := r.mustTake(length, alice, 1)
	size := int64(len(held.Bytes))
	free := r.mustTake(length, alice, 2)
	r.lender.Release([]uint64{free.Number})
	if err := r.lender.Close(); err != nil {
		t.Fatal(err)
	}
	wantStats(t, p, 2*size, 2)
	r.sees(held, length, 1)
	if r.ended != 1 {
		t.Errorf("got %d leases over, want the released one", r.ended)
	}
	r.unmap()
	wantStats(t, p, 0, 0)
	if r.ended != 2 {
		t.Errorf("got %d leases over, want both", r.ended)
	}
	if _, ok := r.take(length, alice, 1); ok {
		t.Error("an ended connection got a lease")
	}
}

// TestSettle_DropsSegmentsOfEndedReaders: a reader ends while another process keeps its connection
// open.
func TestSettle_DropsSegmentsOfEndedReaders(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	gone := r.mustTake(length, alice, 1)
	kept := r.mustTake(length, alice, 2)
	r.drop(gone.Segment)
	wantStats(t, p, int64(len(kept.Bytes)), 1)
	r.sees(kept, length, 2)
}

// TestSettle_DropsIdleSegments: an idle segment is dropped, and the reader's next lease lists it.
func TestSettle_DropsIdleSegments(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	first := r.mustTake(length, alice, 1)
	r.lender.Release([]uint64{first.Number})
	p.settle(time.Now().Add(idleTime - time.Second))
	if p.Stats().Lent != 0 {
		t.Error("the segment was dropped before its time")
	}
	p.settle(time.Now().Add(idleTime + time.Second))
	next := r.mustTake(length, alice, 2)
	if next.Segment == first.Segment || !slices.Equal(next.Gone, []uint64{first.Segment}) {
		t.Errorf("got segment %d and gone %v, want a new one, and %d in gone", next.Segment, next.Gone, first.Segment)
	}
	wantStats(t, p, int64(len(next.Bytes)), 1)
}

// TestLimits: a lease beyond a limit is refused, and the pool stays usable.
func TestLimits(t *testing.T) {
	p := newPool(t, 8*length)
	r := newReader(t, p)
	var taken []Lease
	for {
		l, ok := r.take(length, alice, 1)
		if !ok {
			break
		}
		taken = append(taken, l)
	}
	if len(taken) != 3 || p.Stats().Refused != 1 { // each segment is a little longer than requested
		t.Errorf("got %d leases and %+v, want 3 within half of the budget", len(taken), p.Stats())
	}
	others, ok := p.budget.TryReserve(4 * length)
	if !ok {
		t.Fatal("the other half of the budget is not free")
	}
	others.Release()

	many := newPool(t, 1<<30)
	r = newReader(t, many)
	for range mostOfConnection {
		r.mustTake(4096, alice, 1)
	}
	if _, ok := r.take(4096, alice, 1); ok {
		t.Errorf("got more than %d segments", mostOfConnection)
	}
	other := newReader(t, many)
	other.mustTake(4096, alice, 1)
	many.descriptors = many.Stats().Segments
	if _, ok := other.take(4096, alice, 1); ok {
		t.Error("got more descriptors than the limit")
	}

	full := newPool(t, 8*length)
	all, err := full.budget.Reserve(t.Context(), 8*length)
	if err != nil {
		t.Fatal(err)
	}
	r = newReader(t, full)
	if _, ok := r.take(length, alice, 1); ok {
		t.Error("got memory beyond the budget")
	}
	if s := full.Stats(); s.Segments != 0 || s.Bytes != 0 || s.Refused != 1 {
		t.Errorf("got %+v after a refusal", s)
	}
	all.Release()
	r.mustTake(length, alice, 1)
}

// TestSent_DropsUnsentSegments: if a batch was not sent completely, the reader may have a part of
// it. Its segment is dropped.
func TestSent_DropsUnsentSegments(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	l, _ := r.lender.Lend(length, alice, func() { r.ended++ })
	l.Sent(false)
	wantStats(t, p, 0, 0)
	if again := r.mustTake(length, alice, 1); again.Segment == l.Segment || r.ended != 1 {
		t.Errorf("got segment %d again, %d leases over", again.Segment, r.ended)
	}
	// A connection may end while a batch is being written.
	l, _ = r.lender.Lend(length, alice, func() { r.ended++ })
	if err := r.lender.Close(); err != nil {
		t.Fatal(err)
	}
	p.settle(time.Now())
	l.Bytes[0] = 1 // still mapped
	l.Sent(true)
	r.unmap()
	wantStats(t, p, 0, 0)
	if r.ended != 3 {
		t.Errorf("got %d leases over, want 3", r.ended)
	}
}

// TestReadersCannotWrite: readers cannot get write access to a segment.
func TestReadersCannotWrite(t *testing.T) {
	p := newPool(t, 64<<20)
	r := newReader(t, p)
	l, ok := r.lender.Lend(length, alice, func() {})
	if !ok {
		t.Fatal("refused")
	}
	defer l.Sent(true)
	again, err := reopen(l.Descriptor, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	for what, err := range map[string]error{
		"write":             second(unix.Pwrite(again, []byte("x"), 0)),
		"map for writing":   second(unix.Mmap(again, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED)),
		"shorten":           unix.Ftruncate(again, 1),
		"lengthen":          unix.Ftruncate(again, 2*length),
		"punch a hole":      unix.Fallocate(again, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096),
		"take off the seal": second(unix.FcntlInt(uintptr(again), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)),
	} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: got %v, want %v", what, err, unix.EPERM)
		}
	}
	if _, err := unix.Pwrite(l.Descriptor, []byte("x"), 0); err == nil {
		t.Error("the reader's descriptor is writable")
	}
}

func second[T any](_ T, err error) error { return err }

// TestPool_RandomUse: readers take, release and end in random order. Each sees its own bytes while
// it holds them. In the end no memory is in use.
func TestPool_RandomUse(t *testing.T) {
	p := newPool(t, 32<<20)
	random := rand.New(rand.NewPCG(1, 2))
	type held struct {
		Lease
		fill byte
		n    int64
	}
	var readers []*reader
	leases := map[*reader][]held{}
	next := byte(0)
	for range 3000 {
		if len(readers) < 4 {
			readers = append(readers, newReader(t, p))
		}
		i := random.IntN(len(readers))
		r := readers[i]
		switch mine := leases[r]; {
		case random.IntN(100) == 0:
			if err := r.lender.Close(); err != nil {
				t.Fatal(err)
			}
			for _, h := range mine {
				r.sees(h.Lease, h.n, h.fill)
			}
			r.unmap()
			readers = slices.Delete(readers, i, i+1)
			delete(leases, r)
		case random.IntN(2) == 0 && len(mine) > 0:
			at := random.IntN(len(mine))
			r.sees(mine[at].Lease, mine[at].n, mine[at].fill)
			r.lender.Release([]uint64{mine[at].Number})
			leases[r] = slices.Delete(mine, at, at+1)
		default:
			next++
			n := int64(1+random.IntN(8)) * 100_000
			if l, ok := r.take(n, Purpose{Principal: string(rune('a' + random.IntN(2)))}, next); ok {
				leases[r] = append(leases[r], held{l, next, n})
			}
		}
		if random.IntN(10) == 0 {
			p.settle(time.Now())
		}
		for r, all := range leases {
			for _, h := range all {
				if b := r.mapped[h.Segment]; b[0] != h.fill || b[h.n-1] != h.fill {
					t.Fatalf("lease %d: got %x to %x, want %x", h.Number, b[0], b[h.n-1], h.fill)
				}
			}
		}
	}
	for _, r := range readers {
		if err := r.lender.Close(); err != nil {
			t.Fatal(err)
		}
		r.unmap()
	}
	wantStats(t, p, 0, 0)
	if s := p.Stats(); s.Leases < 500 || s.Refused < 50 {
		t.Errorf("got %+v: want at least 500 leases and 50 refusals", s)
	}
}
