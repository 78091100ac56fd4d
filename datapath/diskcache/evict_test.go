package diskcache

import (
	"fmt"
	"path"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestReadOnlyDiskKeepsItsChunks checks that a full disk that is readable but not writable
// continues to serve its chunks, however many new chunks are offered.
func TestReadOnlyDiskKeepsItsChunks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 4 * block}, byNumber)
		defer c.Close()
		for i := range 4 {
			mustWrite(t, c, i, 3000)
		}
		calls := 0
		c.disk.fault = func(s step, _ string) (int, error) {
			if s == stepOpen || s == stepRead {
				return 0, nil
			}
			calls++
			return 0, syscall.EROFS
		}
		for range 100 {
			for i := 10; i < 14; i++ {
				key, data := chunkOf(i, 3000)
				if c.Write(t.Context(), key, uint64(i), data) {
					t.Fatalf("write chunk %d: got kept, on a disk that is read-only", i)
				}
			}
			time.Sleep(time.Second)
		}
		if calls != 4 { // immediately, and after 10, 30 and 70 s
			t.Errorf("got %d calls that write within 100 s, want 4: %+v", calls, c.Stats())
		}
		for i := range 4 {
			wantThere(t, c, i, 3000, true)
		}
	})
}

// TestFileThatStaysIsPassedOver checks that a file that cannot be removed does not prevent other
// files from being evicted.
func TestFileThatStaysIsPassedOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 4 * block}, byNumber)
		defer c.Close()
		for i := range 4 {
			mustWrite(t, c, i, 3000)
		}
		stays, _ := chunkOf(0, 3000) // the chunk that is needed last
		c.disk.fault = func(s step, file string) (int, error) {
			if s == stepRemove && file == path.Clean(stays.name().file()) {
				return 0, syscall.EPERM
			}
			return 0, nil
		}
		key, data := chunkOf(10, 3000)
		if c.Write(t.Context(), key, 10, data) {
			t.Fatal("got kept, want an error first")
		}
		time.Sleep(errorTime)
		for i := 10; i < 14; i++ {
			mustWrite(t, c, i, 3000)
			wantThere(t, c, i, 3000, true)
		}
		wantThere(t, c, 0, 3000, true) // the chunk takes space, so it is also served
		if s := c.Stats(); s.Evictions != 4 || s.WriteErrors != 1 || s.Bytes != 4*block {
			t.Errorf("got %+v, want 4 evictions and one error", s)
		}
	})
}

// TestTooFewVictimsStay checks that a chunk evicts nothing if evicting all allowed chunks would not
// free enough space for it. A following smaller chunk replaces the one needed last.
func TestTooFewVictimsStay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		due := map[uint64]time.Duration{0: 100 * time.Hour, 1: 50 * time.Hour, 2: 2 * time.Hour, 3: time.Second, 10: time.Hour, 11: time.Hour}
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 4 * block}, func(ref uint64) time.Duration { return due[ref] })
		defer c.Close()
		for i := range 4 {
			mustWrite(t, c, i, 3000)
		}
		key, data := chunkOf(10, 4*block-footerSize) // the fourth chunk is needed soon, so it must stay
		if c.Write(t.Context(), key, 10, data) {
			t.Fatal("got kept, want no room")
		}
		mustWrite(t, c, 11, 3000)
		wantThere(t, c, 0, 3000, false) // the chunk needed last was evicted
		wantThere(t, c, 1, 3000, true)
	})
}

// TestDiskThatOthersFill: the file system has less space than MaxBytes allows. A new chunk then
// replaces an old one, without an error or a pause. A chunk that may not replace any is refused; an
// attempt to write it would turn writes off for the others too. Once there is space again, it is
// used.
func TestDiskThatOthersFill(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var told []string
		tell := func(what string, err error) { told = append(told, fmt.Sprint(what, ": ", err)) }
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 8 * block, Tell: tell}, byNumber)
		defer c.Close()
		free := int64(10 * block)
		c.space = func(string) (int64, int64, error) { return 100 * block, free, nil }
		c.disk.fault = func(s step, _ string) (int, error) {
			switch {
			case s == stepRemove:
				free += block
			case s == stepWrite && free < block:
				return 0, syscall.ENOSPC
			case s == stepRename:
				free -= block
			}
			return 0, nil
		}
		for i := range 4 {
			mustWrite(t, c, i, 3000)
		}
		free = block - 1
		mustWrite(t, c, 10, 3000)
		wantThere(t, c, 0, 3000, false) // the chunk needed last was evicted
		wantThere(t, c, 1, 3000, true)
		if s := c.Stats(); s.WriteErrors != 0 || s.Evictions != 1 || s.Bytes != 4*block {
			t.Errorf("got %+v, want one eviction and no error", s)
		}
		free = 0
		if key, data := chunkOf(0, 3000); c.Write(t.Context(), key, 0, data) || !c.Stats().WritesOff || c.Stats().Refused != 1 {
			t.Errorf("needed later than all: got %+v, want it refused, and writes off", c.Stats())
		}
		mustWrite(t, c, 11, 3000)
		wantThere(t, c, 1, 3000, false)
		free = 10 * block
		mustWrite(t, c, 0, 3000)
		want := []string{"additions: the file system is full: 4095 bytes are free", "additions: <nil>"}
		if !slices.Equal(told, want) {
			t.Errorf("told: got %q, want %q", told, want)
		}
		if s := c.Stats(); s.Evictions != 2 || s.Bytes != 5*block || s.WriteErrors != 0 || s.WritesOff {
			t.Errorf("with room again: got %+v, want 5 chunks", s)
		}
	})
}

// TestWritesSideBySideDoNotShareTheRoom checks that concurrent writes do not both use the space
// that one of them has freed on a full file system.
func TestWritesSideBySideDoNotShareTheRoom(t *testing.T) {
	c := open(t, Config{Dir: t.TempDir(), MaxBytes: 8 * block}, byNumber)
	defer c.Close()
	for i := range 4 {
		mustWrite(t, c, i, 3000)
	}
	free := int64(0)
	c.space = func(string) (int64, int64, error) { return 100 * block, free, nil }
	second := true
	c.disk.fault = func(s step, _ string) (int, error) {
		switch s {
		case stepRemove:
			free += block
		case stepWrite:
			if second {
				second = false
				mustWrite(t, c, 11, 3000)
			}
		case stepRename:
			if free -= block; free < 0 {
				t.Errorf("got %d bytes free, want none written that are not", free)
			}
		}
		return 0, nil
	}
	mustWrite(t, c, 10, 3000)
	if s := c.Stats(); s.Evictions != 2 || s.Chunks != 4 {
		t.Errorf("got %+v, want two in the place of two", s)
	}
}
