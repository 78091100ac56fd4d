package diskcache

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		coming, there time.Duration
		want          bool
	}{
		{Never, Never, false},
		{Never, 9, false},
		{9, Never, true},
		{5, 10, true},
		{5, 9, false},
		{5, 1, false},
		{0, 0, true},
		{Never - 1, Never, true},
	} {
		if got := worth(c.coming, c.there); got != c.want {
			t.Errorf("coming in %v, there %v: got %v, want %v", c.coming, c.there, got, c.want)
		}
	}
}

// TestAdmissionByPlan fills a cache and offers more chunks. The times of their next uses determine
// which chunks are admitted and evicted.
func TestAdmissionByPlan(t *testing.T) {
	const n = 3000 // one block
	bubble.Test(t, func(t *testing.T) {
		needed := map[uint64]time.Duration{0: 10, 1: 200, 2: 40, 3: 80} // in seconds; missing: never needed
		dir := t.TempDir()
		cfg := Config{Dir: dir, MaxBytes: 4 * block}
		next := func(ref uint64) time.Duration {
			if s, ok := needed[ref]; ok {
				return s * time.Second
			}
			return Never
		}
		c := open(t, cfg, next)
		for i := range 4 {
			mustWrite(t, c, i, n)
		}
		offer := func(i int, want bool) {
			t.Helper()
			key, data := chunkOf(i, n)
			if got := c.Write(t.Context(), key, uint64(i), data); got != want {
				t.Errorf("offer chunk %d: got %v, want %v", i, got, want)
			}
		}
		offer(10, false) // no reader needs it
		needed[11] = 150
		offer(11, false) // needed sooner than chunk 1, but not by much
		needed[12] = 30
		offer(12, true)
		wantThere(t, c, 1, n, false) // the chunk needed last was evicted
		delete(needed, 2)            // its reader has ended
		needed[13] = 1000
		offer(13, true)
		wantThere(t, c, 2, n, false)
		if s := c.Stats(); s.Evictions != 2 || s.Refused != 2 || s.Bytes != 4*block {
			t.Errorf("got %+v, want 2 evictions and 2 refused", s)
		}
		c.Close()

		// After a restart no reader is known, so no chunk is known to be worth keeping or writing.
		needed = map[uint64]time.Duration{}
		c = open(t, cfg, next)
		defer c.Close()
		offer(20, false)
		// A reader needs three chunks that are cached, and one that is not.
		needed = map[uint64]time.Duration{0: 10, 3: 20, 13: 30, 21: 15}
		for _, i := range []int{0, 3, 13} {
			key, _ := chunkOf(i, n)
			c.Adopt(key, uint64(i))
		}
		offer(21, true)
		wantThere(t, c, 12, n, false)
	})
}

// TestOneLargeChunkTakesThePlaceOfSeveral checks that one large chunk replaces several small ones,
// or none.
func TestOneLargeChunkTakesThePlaceOfSeveral(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		needed := map[uint64]bool{}
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 4 * block}, func(ref uint64) time.Duration {
			if needed[ref] {
				return time.Second
			}
			return Never
		})
		defer c.Close()
		for i := range 4 {
			mustWrite(t, c, i, 3000)
		}
		needed[0], needed[1], needed[9] = true, true, true
		key, data := chunkOf(9, 11000) // three blocks
		if c.Write(t.Context(), key, 9, data) || c.Stats().Chunks != 4 {
			t.Errorf("only two have no readers: got %+v, want nothing changed", c.Stats())
		}
		delete(needed, 1)
		if !c.Write(t.Context(), key, 9, data) || c.Stats().Chunks != 2 || c.Stats().Bytes != 4*block {
			t.Errorf("three have no readers: got %+v, want the large one in their place", c.Stats())
		}
	})
}

// TestVictimsAmongMany checks that only some of thousands of chunks are considered, and that the
// evicted chunks are among those needed late. This also holds for a chunk that replaces many.
func TestVictimsAmongMany(t *testing.T) {
	const chunks, coming = 10_000, 10_000
	c := open(t, Config{Dir: t.TempDir()}, func(ref uint64) time.Duration {
		if ref == coming {
			return 1
		}
		return time.Duration(ref) * time.Second
	})
	defer c.Close()
	for ref := range uint64(chunks) {
		var n name
		binary.LittleEndian.PutUint64(n[:], ref*0x9e3779b97f4a7c15)
		c.entries[n] = entry{size: block, ref: ref}
		c.bytes += block
	}
	for range 100 {
		if got := c.choose(block, coming); len(got) != 1 || got[0].ref < chunks/2 {
			t.Fatalf("one: got %v, want one of the later half", got)
		}
	}
	var refs []uint64
	for _, v := range c.choose(1000*block, coming) {
		refs = append(refs, v.ref)
	}
	slices.Sort(refs)
	if got := len(slices.Compact(refs)); got != 1000 || refs[0] < chunks/2 {
		t.Errorf("many: got %d chunks, the first of them due in %d s, want 1000 of the later half", got, refs[0])
	}
}
