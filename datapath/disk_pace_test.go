package datapath

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
)

// TestDisk_FindsSourcesByNumber checks that the disk tier finds a chunk by the numbers of its
// source and of the chunk, until the source is closed.
func TestDisk_FindsSourcesByNumber(t *testing.T) {
	d := newDataset(t, 1, same(40, 900), 10, 4<<10)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	var sources []*Source
	for range 3 {
		sources = append(sources, p.Open(d.index, d.store, "set/"))
	}
	check := func(s *Source, chunk int, want bool) {
		t.Helper()
		got, n := p.find(s.ref(chunk))
		if (got == s && n == chunk) != want || !want && got != nil {
			t.Errorf("source %d: got %v, chunk %d, want it found: %v", s.place, got == s, n, want)
		}
		if got != nil {
			got.leave()
		}
	}
	for _, chunk := range []int{0, 7, 1<<refChunks - 1} {
		for _, s := range sources {
			check(s, chunk, true)
		}
	}
	sources[1].Close()
	for i, want := range []bool{true, false, true} {
		check(sources[i], 3, want)
	}
	if later := p.Open(d.index, d.store, "set/"); later.ref(0) == sources[1].ref(0) || later.ref(0) == sources[2].ref(0) {
		t.Error("got the number of a source that was opened before")
	}
}

// TestPace_IsAMeanOfLongReads checks the weights of the mean: equal for the first reads, an eighth
// for each later one, and zero for short or failed ones.
func TestPace_IsAMeanOfLongReads(t *testing.T) {
	var p pace
	now := time.Unix(1000, 0)
	p.tried(false, 1<<20, time.Hour, now)
	p.tried(true, policy.RatedBytes-1, time.Hour, now.Add(time.Second))
	if p.reads != 0 || p.perByte != 0 || !p.last.Equal(now.Add(time.Second)) {
		t.Errorf("got %d reads noted, last at %v; want none that failed or was short", p.reads, p.last)
	}
	p.tried(true, policy.RatedBytes, policy.RatedBytes*time.Microsecond, now)
	p.tried(true, policy.RatedBytes, 3*policy.RatedBytes*time.Microsecond, now)
	if got := p.perByte * 1e6; p.reads != 2 || got < 1.99 || got > 2.01 {
		t.Errorf("got %v microseconds for a byte, want the mean of 1 and 3", got)
	}
	for range 1000 {
		p.tried(true, policy.RatedBytes, policy.RatedBytes*time.Microsecond, now)
	}
	p.tried(true, policy.RatedBytes, 9*policy.RatedBytes*time.Microsecond, now)
	if got := p.perByte * 1e6; got < 1.99 || got > 2.01 {
		t.Errorf("got %v microseconds for a byte, want 1 and an eighth of 8 more", got)
	}
	var r rates
	for range policy.RatedReads - 1 {
		r.note(time.Second, 1<<20, time.Second)
	}
	if _, known := r.takes(1); known {
		t.Errorf("got a store known after %d reads, want %d", policy.RatedReads-1, policy.RatedReads)
	}
	r.note(time.Second, 1<<20, time.Second)
	if took, known := r.takes(2 << 20); !known || took != 3*time.Second {
		t.Errorf("got %v, %v for two seconds' bytes after one of waiting, want 3s", took, known)
	}
}

// TestSource_KeepOffersWithoutWaiting checks that a chunk from the store is offered to the disk,
// and dropped if the queue is full. A dataset without KeepOnDisk offers none.
func TestSource_KeepOffersWithoutWaiting(t *testing.T) {
	d := newDataset(t, 1, same(4, 900), 4, 8<<10)
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	s.KeepOnDisk("there is no disk")
	if s.keep(0); s.onDisk || s.isOnDisk(0) {
		t.Error("got chunks on disk without one")
	}
	tier := &disk{path: p, queue: make(chan uint64, 2)}
	kept := &Source{path: &Path{disk: tier}, onDisk: true, place: 5}
	for chunk := range 5 {
		kept.keep(chunk)
	}
	if got := tier.dropped.Load(); got != 3 || len(tier.queue) != 2 {
		t.Errorf("got %d chunks dropped and %d waiting, want 3 and 2", got, len(tier.queue))
	}
	for chunk := range 2 {
		if got := <-tier.queue; got != kept.ref(chunk) || got != 5<<refChunks|uint64(chunk) {
			t.Errorf("got %x offered, want %x", got, kept.ref(chunk))
		}
	}
}
