package datapath

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// keyed is a store for which a test controls reads by object and offset.
type keyed struct {
	objstore.RangeReader
	next func(ctx context.Context, key string, offset int64) error

	mu    sync.Mutex // guards reads
	reads int
}

func (k *keyed) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	k.mu.Lock()
	k.reads++
	k.mu.Unlock()
	if err := k.next(ctx, ref.Key, offset); err != nil {
		return err
	}
	return k.RangeReader.ReadRange(ctx, ref, offset, dst...)
}

func (k *keyed) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads
}

// The error of a shard that has changed reaches batches of that shard. A batch that needs another
// shard and has joined the load does not get it.
func TestExtracts_KeepAnErrorWithItsObject(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 20, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		store := &keyed{RangeReader: d.store, next: func(ctx context.Context, key string, _ int64) error {
			select {
			case <-open:
			case <-ctx.Done():
				return ctx.Err()
			}
			if strings.Contains(key, "s00000") {
				return objstore.ErrChanged
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			return nil
		}}
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
		s := p.Open(d.index, store, "set/")
		first := d.reading(t.Context(), t, s, []uint64{5, 30})
		synctest.Wait()
		joined := d.reading(t.Context(), t, s, []uint64{30})
		synctest.Wait()
		close(open)
		if err := (<-first).err; !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("first: got %v", err)
		}
		got := <-joined
		if got.err != nil {
			t.Errorf("a batch that needs a sample of the other shard got %v", got.err)
		} else {
			got.body.Close()
		}
	})
}

// A batch that has joined a query to an owner that hangs reads the store after half of its own
// time, as a batch that has not joined does.
func TestExtracts_JoinedBatchesLeaveAHungOwnerInTime(t *testing.T) {
	d := newDataset(t, 310, same(60, 900), 20, 8<<10)
	for _, joins := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			hangs := func(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, _ Instead) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			peers := &scripted{dataset: d, answers: map[string]answerScript{"a": hangs}}
			p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true})
			s := p.Open(d.index, d.store, "set/")
			s.Share("set")
			long, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			var first <-chan result
			if joins {
				first = d.reading(long, t, s, []uint64{33})
				synctest.Wait()
			}
			short, end := context.WithTimeout(t.Context(), 10*time.Second)
			defer end()
			got := <-d.reading(short, t, s, []uint64{33})
			if got.err != nil {
				t.Errorf("joins %v: got %v", joins, got.err)
			} else {
				got.body.Close()
			}
			if joins {
				r := <-first
				must(t, r.err)
				r.body.Close()
			}
		})
	}
}

// Gateway a is late, and gateway b, which is asked instead, hangs. A batch that arrives meanwhile
// gets the sample that a sends.
func TestExtracts_HedgesAreNotJoined(t *testing.T) {
	d := newDataset(t, 310, same(60, 900), 20, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		late := func(ctx context.Context, s *scripted, q *peer.Query, dst [][]byte, instead Instead) error {
			during, end := context.WithCancel(ctx)
			hedged := make(chan error, 1)
			go func() { hedged <- instead(during, true) }()
			<-release
			s.send(q, dst)
			end()
			<-hedged
			return nil
		}
		hangs := func(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, _ Instead) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		peers := &scripted{dataset: d, answers: map[string]answerScript{"a": late, "b": hangs, "c": hangs}}
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		first := d.reading(ctx, t, s, []uint64{33})
		synctest.Wait()
		second := d.reading(ctx, t, s, []uint64{33})
		synctest.Wait()
		begun := time.Now()
		close(release)
		got := <-first
		must(t, got.err)
		other := <-second
		if took := time.Since(begun); other.err != nil || took > time.Second {
			t.Errorf("the second batch: got %v after %v, though the sample is there", other.err, took)
		}
		if other.err == nil {
			other.body.Close()
		}
		got.body.Close()
	})
}

// A batch that arrives after a hedge has failed joins the running load.
func TestExtracts_AFailedHedgeHidesNoLoad(t *testing.T) {
	d := newDataset(t, 310, same(60, 900), 20, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		late := func(ctx context.Context, s *scripted, q *peer.Query, dst [][]byte, instead Instead) error {
			during, end := context.WithTimeout(ctx, time.Second)
			defer end()
			_ = instead(during, true)
			<-release
			s.send(q, dst)
			return nil
		}
		hangs := func(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, _ Instead) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		peers := &scripted{dataset: d, answers: map[string]answerScript{"a": late, "b": hangs, "c": hangs}}
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		d.store.SetFault(down)
		defer d.store.SetFault(nil)
		first := d.reading(t.Context(), t, s, []uint64{33})
		time.Sleep(5 * time.Second)
		asked := func() string {
			peers.mu.Lock()
			defer peers.mu.Unlock()
			return strings.Join(peers.asked, "")
		}
		before := asked()
		second := d.reading(t.Context(), t, s, []uint64{33})
		time.Sleep(5 * time.Second)
		if got := asked(); got != before {
			t.Errorf("got questions %q for a sample that is under way, want no more than %q", got, before)
		}
		close(release)
		for _, c := range []<-chan result{first, second} {
			got := <-c
			must(t, got.err)
			got.body.Close()
		}
	})
}

// A batch that retries without the samples of other loads does not hide hot samples.
func TestExtracts_ATryWithoutOthersHidesNoHotSample(t *testing.T) {
	d := newDataset(t, 3, same(40, 60<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		blocked := d.offsetOf(t, 20)
		open := make(chan struct{})
		store := &keyed{RangeReader: d.store, next: func(ctx context.Context, _ string, offset int64) error {
			if offset != blocked {
				return nil
			}
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		p := newPath(t, Config{NoPrefetch: true, Budget: bud(32 << 20)})
		s := p.Open(d.index, store, "set/")
		body, err := s.Read(t.Context(), shuffle.Cursor{}, hotBatch(t, d, []uint64{5}, 10))
		must(t, err)
		body.Close()
		if store.count() != 1 || p.hot.held() == 0 {
			t.Fatal("not kept")
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		first := d.reading(short, t, s, []uint64{20})
		synctest.Wait()
		second := d.reading(t.Context(), t, s, []uint64{5, 20})
		time.Sleep(2 * time.Second)
		close(open)
		if (<-first).err == nil {
			t.Error("first: want its deadline")
		}
		got := <-second
		must(t, got.err)
		got.body.Close()
		before := store.count()
		third := <-d.reading(t.Context(), t, s, []uint64{5})
		must(t, third.err)
		third.body.Close()
		if n := store.count() - before; n != 0 {
			t.Errorf("got %d store reads of a hot sample, while %d bytes are held", n, p.hot.held())
		}
		if h := p.hot.hits.Load(); h != 2 {
			t.Errorf("got %d hits, want 2", h)
		}
	})
}

// Samples without bytes are complete immediately, in any load.
func TestExtracts_EmptySamplesWaitForNoLoad(t *testing.T) {
	d := newDataset(t, 3, same(40, 100<<10), 40, 4<<20)
	bubble.Test(t, func(t *testing.T) {
		s, _, release := d.held(t, sound)
		empty := d.ranges(t, []uint64{7})
		empty[0].Ranges[0].Length = 0
		both := d.ranges(t, []uint64{5})
		both[0].Ranges = append(both[0].Ranges, empty[0].Ranges[0])
		both[0].Ranges[1].Seq = 1
		ended := make(chan struct{})
		go func() {
			body, err := s.Read(t.Context(), shuffle.Cursor{}, both)
			must(t, err)
			body.Close()
			close(ended)
		}()
		synctest.Wait()
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		body, err := s.Read(ctx, shuffle.Cursor{}, empty)
		if err != nil {
			t.Errorf("got %v for a sample of no bytes", err)
		} else {
			body.Close()
		}
		release()
		<-ended
	})
}
