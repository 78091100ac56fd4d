package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/internal/budget"
)

// countingOpener counts openings, and can block them.
type countingOpener struct {
	plans.Importance
	before func(ctx context.Context) error

	mu    sync.Mutex // guards opens
	opens map[string]int
}

func (w *countingOpener) Open(ctx context.Context, digest, generation string, first []uint64) (*importance.Snapshot, error) {
	w.mu.Lock()
	w.opens[digest]++
	w.mu.Unlock()
	if w.before != nil {
		if err := w.before(ctx); err != nil {
			return nil, err
		}
	}
	return w.Importance.Open(ctx, digest, generation, first)
}

func (w *countingOpener) opened(digest string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opens[digest]
}

// watchedRig returns a rig with a number of snapshots, none of which is open.
func watchedRig(t *testing.T, snapshots int) (*rig, *countingOpener, *budget.Budget, []string) {
	t.Helper()
	w := &countingOpener{opens: map[string]int{}}
	var b *budget.Budget
	r := newRig(t, 50, 800, func(c *gateway.Config) {
		w.Importance = c.Datasets[0].Importance
		c.Datasets[0].Importance = w
		b = c.Budget
	})
	source := newRig(t, 50, 800, nil)
	source.snapshot()
	var names []string
	for i := range snapshots {
		name := source.freeze(http.StatusCreated, 0, "seed=3", fmt.Sprintf(`,"repeat":%d`, i+4)).Snapshot
		stored, _ := source.store.Bytes("data/.millrace/importance/" + name)
		r.store.Set("data/.millrace/importance/"+name, stored)
		names = append(names, name)
	}
	return r, w, b, names
}

func TestSnapshotIsOpenedOnceForAllWhoWait(t *testing.T) {
	r, w, _, names := watchedRig(t, 1)
	entered, leave := make(chan struct{}), make(chan struct{})
	w.before = func(context.Context) error {
		close(entered) // a second opening panics
		<-leave
		return nil
	}
	path := "/epoch/0/batch/0?importance=" + names[0]
	var all sync.WaitGroup
	ask := func() {
		if a, err := r.try("GET", path, nil); err != nil || a.StatusCode != http.StatusOK {
			t.Errorf("got status %d and %v, want 200", a.StatusCode, err)
		}
	}
	all.Go(ask)
	<-entered
	for range 7 {
		all.Go(ask)
	}
	close(leave)
	all.Wait()
	if got := w.opened(names[0]); got != 1 {
		t.Errorf("got %d opened for 8 requests, want 1", got)
	}
}

// TestOpeningEndsWithItsLastWaiter: opening continues when the first waiting request leaves, and is
// cancelled when the last one leaves. A later request is served.
func TestOpeningEndsWithItsLastWaiter(t *testing.T) {
	r, w, b, names := watchedRig(t, 1)
	before := b.InUse()
	entered, ended := make(chan struct{}), make(chan struct{})
	var enter, end sync.Once // the second request may arrive so late that it opens the snapshot again
	w.before = func(ctx context.Context) error {
		enter.Do(func() { close(entered) })
		<-ctx.Done()
		end.Do(func() { close(ended) })
		return ctx.Err()
	}
	ask := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+"/epoch/0/batch/0?importance="+names[0], nil)
		if err != nil {
			t.Error(err)
			return
		}
		if res, err := r.server.Client().Do(req); err == nil {
			res.Body.Close()
			t.Errorf("got status %d, want no answer to who has left", res.StatusCode)
		}
	}
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	defer leaveSecond()
	var all sync.WaitGroup
	all.Go(func() { ask(first) })
	<-entered
	all.Go(func() { ask(second) })
	leaveFirst()
	leaveSecond()
	<-ended
	all.Wait()
	w.before = nil
	if a := r.do("GET", "/epoch/0/batch/0?importance="+names[0]); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d after others had left, want 200: %s", a.StatusCode, a.body)
	}
	if got := w.opened(names[0]); got < 2 {
		t.Errorf("got %d opened, want another after the one that was given up", got)
	}
	r.server.Close() // waits for the handlers of disconnected clients
	if err := r.gateway.Close(); err != nil {
		t.Error(err)
	}
	if got := b.InUse(); got != before {
		t.Errorf("got %d bytes in use after all is closed, want %d as before", got, before)
	}
}

// TestFewSnapshotsStayOpen uses more snapshots, one after the other, than stay open.
func TestFewSnapshotsStayOpen(t *testing.T) {
	r, w, b, names := watchedRig(t, 4)
	before := b.InUse()
	for range 2 {
		for _, name := range names {
			for range 2 {
				if a := r.do("GET", "/epoch/0/batch/0?shuffle=none&importance="+name); a.StatusCode != http.StatusOK {
					t.Fatalf("got status %d, want 200: %s", a.StatusCode, a.body)
				}
			}
		}
	}
	for _, name := range names {
		if got := w.opened(name); got != 2 {
			t.Errorf("got %d opened, want 2: once for each time it had been closed", got)
		}
	}
	if got := b.InUse() - before; got < 8<<20 || got > 9<<20 {
		t.Errorf("got %d bytes for snapshots that are open, want two times a little more than 4 MiB", got)
	}
	failed := 0
	w.before = func(context.Context) error { failed++; return context.DeadlineExceeded }
	unknown := "/epoch/0/batch/0?importance=" + names[0]
	for range 2 {
		checkProblem(t, r.do("GET", unknown, "X-Request-Id: a"), http.StatusGatewayTimeout, "store_timeout", true)
	}
	if failed != 2 {
		t.Errorf("got %d attempts, want 2: a failure is not kept", failed)
	}
	w.before = func(context.Context) error { panic("boom") }
	checkProblem(t, r.do("GET", unknown), http.StatusInternalServerError, "internal", true)
	w.before = nil
	if a := r.do("GET", unknown); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d after a panic, want 200", a.StatusCode)
	}
	r.server.Close() // a snapshot is in use until its handler has returned
	if err := r.gateway.Close(); err != nil {
		t.Error(err)
	}
	if got := b.InUse(); got != before {
		t.Errorf("got %d bytes in use after a panic and the end, want %d as before", got, before)
	}
}
