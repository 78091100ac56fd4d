package diskcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// hanging is a disk that hangs in one kind of call.
type hanging struct {
	mu    sync.Mutex    // guards the fields below
	at    step          // call that hangs; "": none
	until chan struct{} // closed when the calls resume
	calls int           // number of calls that have hung
	told  []string      // reports of the cache
}

func (h *hanging) tell(what string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, fmt.Sprint(what, ": ", err))
}

func (h *hanging) fault(s step, _ string) (int, error) {
	h.mu.Lock()
	hangs, until := s == h.at, h.until
	if hangs {
		h.calls++
	}
	h.mu.Unlock()
	if hangs {
		<-until
	}
	return 0, nil
}

func (h *hanging) hang(at step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.until, h.calls = at, make(chan struct{}), 0
}

// count returns the number of calls that have hung.
func (h *hanging) count() int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

func (h *hanging) goOn() {
	h.mu.Lock()
	h.at = ""
	close(h.until)
	h.mu.Unlock()
	synctest.Wait()
}

// withHanging runs body in a bubble, with a cache whose disk hangs on request.
func withHanging(t *testing.T, body func(t *testing.T, c *Cache, h *hanging)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		h := &hanging{}
		c := open(t, Config{Dir: t.TempDir(), MaxBytes: 8 << 20, Tell: h.tell})
		defer c.Close()
		c.disk.fault = h.fault
		body(t, c, h)
		if reads, writes, hung := len(c.reads.blocks), len(c.writes.blocks), c.reads.hung.Load()+c.writes.hung.Load(); reads != mostReads || writes != mostWrites || hung != 0 {
			t.Errorf("in the end: got %d free places of reads, %d of writes and %d calls that hang, want %d, %d and 0", reads, writes, hung, mostReads, mostWrites)
		}
	})
}

// within runs a call and checks how long it takes on the bubble's fake clock.
func within(t *testing.T, what string, want time.Duration, call func()) {
	t.Helper()
	begun := time.Now()
	call()
	if took := time.Since(begun); took != want {
		t.Errorf("%s: got it back after %v, want %v", what, took, want)
	}
}

// TestCache_ReadLeavesDiskThatHangs reads a chunk from a disk that hangs in each kind of call. The
// read returns at its deadline, or after Stall. From then on the disk is not read until it resumes,
// and late bytes do not reach the reader's memory.
func TestCache_ReadLeavesDiskThatHangs(t *testing.T) {
	const n = 3 * blockBytes
	for _, at := range []step{stepOpen, stepRead} {
		withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
			key := mustWrite(t, c, 1, n)
			dst := make([]byte, n)
			read := func(what string, took, deadline time.Duration) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				within(t, string(at)+": "+what, took, func() {
					if c.Read(ctx, key, dst) {
						t.Errorf("%s: %s: got the chunk", at, what)
					}
				})
			}
			h.hang(at)
			read("with a deadline", 100*time.Millisecond, 100*time.Millisecond)
			read("without one", Stall, time.Hour)
			read("the next one", 0, time.Hour)
			if h.count() != 2 || c.Contains(key) || !c.Stats().ReadsOff {
				t.Errorf("%s: got %d calls and %+v, want 2 and reads off", at, h.count(), c.Stats())
			}
			h.goOn()
			if !bytes.Equal(dst, make([]byte, n)) {
				t.Errorf("%s: the memory of a read that has returned was written", at)
			}
			if got := c.Stats(); got.ReadsOff || got.ReadErrors+got.Corrupt != 0 {
				t.Errorf("%s: got %+v, want reads on and no errors", at, got)
			}
			wantThere(t, c, 1, n, true)
			if want := []string{"reads: the disk does not respond", "reads: <nil>"}; !slices.Equal(h.told, want) {
				t.Errorf("%s: told %q, want %q", at, h.told, want)
			}
		})
	}
}

// TestCache_WriteLeavesDiskThatHangs writes a chunk to a disk that hangs in each kind of call, and
// then changes the bytes in the caller's memory. No wrong bytes are stored, and after the disk
// resumes the next write works.
func TestCache_WriteLeavesDiskThatHangs(t *testing.T) {
	const n = 3 * blockBytes
	for _, at := range []step{stepCreate, stepWrite, stepSync, stepClose, stepRename} {
		withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
			key, data := chunkOf(1, n)
			h.hang(at)
			within(t, string(at), Stall, func() {
				if c.Write(t.Context(), key, 1, data) {
					t.Errorf("%s: got the chunk kept", at)
				}
			})
			clear(data)
			within(t, string(at)+": another one", 0, func() {
				key, data := chunkOf(2, n)
				if c.Write(t.Context(), key, 2, data) || !c.Stats().WritesOff || h.count() != 1 {
					t.Errorf("%s: got %d calls and %+v, want one and writes off", at, h.count(), c.Stats())
				}
			})
			h.goOn()
			if got := c.Stats(); got.WritesOff || got.WriteErrors != 0 || got.Skipped != 2 {
				t.Errorf("%s: got %+v, want writes on, no errors and two skipped", at, got)
			}
			if c.Contains(key) {
				wantThere(t, c, 1, n, true)
			}
			mustWrite(t, c, 1, n)
			wantThere(t, c, 1, n, true)
			if got := c.Stats(); got.Corrupt != 0 || got.Bytes != Cost(n) {
				t.Errorf("%s: got %+v, want one chunk and nothing corrupt", at, got)
			}
			if want := []string{"writes: the disk does not respond", "writes: <nil>"}; !slices.Equal(h.told, want) {
				t.Errorf("%s: told %q, want %q", at, h.told, want)
			}
		})
	}
}

// TestCache_BoundsCallsThatHang reads with deadlines shorter than Stall, and checks that no more
// calls hang than there are places.
func TestCache_BoundsCallsThatHang(t *testing.T) {
	withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
		key := mustWrite(t, c, 1, 100)
		h.hang(stepRead)
		for range 2 * mostReads {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if c.Read(ctx, key, make([]byte, 100)) {
				t.Error("got the chunk")
			}
			cancel()
		}
		if got := h.count(); got != mostReads {
			t.Errorf("got %d calls, want %d", got, mostReads)
		}
		h.goOn()
		wantThere(t, c, 1, 100, true)
	})
}

// TestCache_RejectAndHoldLeaveDiskThatHangs checks that neither the reader of a wrong chunk nor a
// reload waits for a hanging disk.
func TestCache_RejectAndHoldLeaveDiskThatHangs(t *testing.T) {
	withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
		key := mustWrite(t, c, 1, 100)
		h.hang(stepRemove)
		within(t, "reject", Stall, func() { c.Reject(t.Context(), key) })
		h.goOn()
		if c.Contains(key) {
			t.Error("the chunk that was rejected is there")
		}
		h.hang(stepSync)
		within(t, "hold", Stall, func() {
			if err := c.Hold([]string{"another"}); !errors.Is(err, errHangs) {
				t.Errorf("hold: got %v, want that the disk hangs", err)
			}
		})
		h.goOn()
		if text, err := os.ReadFile(filepath.Join(c.cfg.Dir, markerFile)); err != nil || !bytes.Contains(text, []byte("another")) {
			t.Errorf("got the marker %s, %v, want the dataset named once the disk goes on", text, err)
		}
	})
}

// TestCache_CloseLeavesDiskThatHangs checks that Close waits for a call whose caller has left, but
// not forever.
func TestCache_CloseLeavesDiskThatHangs(t *testing.T) {
	withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
		key := mustWrite(t, c, 1, 100)
		read := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			c.Read(ctx, key, make([]byte, 100))
		}
		h.hang(stepRead)
		read()
		within(t, "close", Stall, c.Close)
		h.goOn()
	})
	withHanging(t, func(t *testing.T, c *Cache, h *hanging) {
		key := mustWrite(t, c, 1, 100)
		h.hang(stepRead)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		c.Read(ctx, key, make([]byte, 100))
		time.AfterFunc(time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			close(h.until)
		})
		within(t, "close while a call ends", time.Second, c.Close)
	})
}
