package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// stack is the real server with the real data path and an in-memory store.
type stack struct {
	store  *memstore.Store
	index  *chunkindex.Index
	budget *budget.Budget
	idle   int64 // bytes permanently reserved for plans
	addr   string

	gateway *gateway.Gateway
}

// newStack serves samples of meanSize bytes in two shards, with a budget of memory bytes.
func newStack(tb testing.TB, samples, meanSize int, chunkSize, memory int64) *stack {
	tb.Helper()
	s := &stack{store: memstore.New(), budget: budget.New(memory, 20*time.Millisecond)}
	const shards = 2
	for n := range shards {
		var shard bytes.Buffer
		for i := n * samples / shards; i < (n+1)*samples/shards; i++ {
			content := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, meanSize/2)
			shard.Write(rawMember(tb, fmt.Sprintf("s%06d.bin", i), content))
		}
		shard.Write(make([]byte, 1024))
		if _, err := s.store.Put(tb.Context(), fmt.Sprintf("data/train-%d.tar", n), bytes.NewReader(shard.Bytes()), int64(shard.Len()), objstore.Condition{}); err != nil {
			tb.Fatal(err)
		}
	}
	opt := build.Options{ChunkSize: chunkSize, Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 16, Seed: 7, BatchSize: 256, Tail: "short"}}
	if _, err := build.Run(tb.Context(), s.store, "data/", opt); err != nil {
		tb.Fatal(err)
	}
	path := datapath.New(datapath.Config{Budget: s.budget, NoPrefetch: true})
	var err error
	s.index, err = chunkindex.Open(tb.Context(), s.store, "data/", chunkindex.OpenOptions{CacheDir: tb.TempDir(), Tables: path.Tables()})
	if err != nil {
		tb.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{
		Datasets: []gateway.Dataset{{Name: "photos", Index: s.index, Source: path.Open(s.index, s.store, "data/")}},
		Budget:   s.budget, Log: zerolog.Nop(), LameDuck: time.Nanosecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.gateway, s.idle = g, s.budget.InUse()
	ln, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gateway.NewServer(g, gateway.ServerConfig{Connections: 64}).Serve(ctx, ln) }()
	tb.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
		path.Close()
		if got := s.budget.InUse(); got != s.idle {
			tb.Errorf("got %d bytes in use at the end, want %d", got, s.idle)
		}
		s.index.Close()
	})
	return s
}

// hold reserves the whole budget except the given bytes and those of the plans, after finished
// requests have released their memory.
func (s *stack) hold(tb testing.TB, but int64) *budget.Reservation {
	tb.Helper()
	for {
		r, err := s.budget.Reserve(tb.Context(), s.budget.Total()-s.idle-but)
		if err == nil {
			return r
		}
		if !errors.Is(err, budget.ErrOverloaded) {
			tb.Fatal(err)
		}
	}
}

// get sends a request for a path and returns the response with its body.
func (s *stack) get(tb testing.TB, path string) answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), "GET", "http://"+s.addr+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{res, body}
}

func TestBudgetErrorsOfTheRealPath(t *testing.T) {
	s := newStack(t, 512, 4<<10, 256<<10, 4<<20)
	if got, want := s.budget.InUse(), int64(4<<20/64); got != want {
		t.Errorf("got %d bytes reserved for plans, want %d", got, want)
	}
	p := checkProblem(t, s.get(t, "/epoch/0/batch/0?batch_size=2048&tail=pad"), 400, "batch_too_large", false)
	if p.Bytes == nil || *p.Bytes < 2048*4<<10 {
		t.Errorf("got the sum %v, want the bytes of the batch", p.Bytes)
	}
	all := s.hold(t, 0)
	a := s.get(t, "/epoch/0/batch/0")
	checkProblem(t, a, 503, "overloaded", true)
	if !a.Close {
		t.Errorf("got a connection that stays open, want the next attempt free to go elsewhere")
	}
	all.Release()
	if a := s.get(t, "/epoch/0/batch/0"); a.StatusCode != http.StatusOK || len(names(t, a.body)) != 256 {
		t.Errorf("got status %d once there is room, want 200 and 256 samples", a.StatusCode)
	}
}

// TestKeepAliveEndsWhenMemoryIsPinned: a full cache is normal, but pinned memory is not available
// to the next batch, so connections close. A request that gets memory is served.
func TestKeepAliveEndsWhenMemoryIsPinned(t *testing.T) {
	s := newStack(t, 512, 4<<10, 256<<10, 4<<20)
	total := s.budget.Total()
	small := "/epoch/0/batch/0?batch_size=16"
	whole := s.get(t, "/epoch/0/batch/0?batch_size=512")
	if whole.StatusCode != http.StatusOK {
		t.Fatalf("got status %d, want 200", whole.StatusCode)
	}
	for s.budget.Pinned() > s.idle { // waits until the body of the batch is closed
		s.get(t, "/healthz")
	}
	rest, ok := s.budget.TryReserve(total - s.budget.InUse())
	if !ok {
		t.Fatal("got no room beside the cache, want all that is left")
	}
	pinned := s.budget.Pinned()
	if a := s.get(t, small); a.StatusCode != http.StatusOK || a.Close || pinned > total/2 {
		t.Errorf("got status %d, closed %v with a full cache and %d of %d bytes pinned, want 200 and false", a.StatusCode, a.Close, pinned, total)
	}
	rest.Release()
	for _, c := range []struct {
		free  int64
		close bool
	}{{total / 10, false}, {total / 25, true}} {
		most := s.hold(t, c.free)
		if a := s.get(t, small); a.StatusCode != http.StatusOK || a.Close != c.close {
			t.Errorf("with %d of %d bytes free: got status %d, closed %v, want 200 and %v", c.free, total, a.StatusCode, a.Close, c.close)
		}
		if a := s.get(t, "/epoch/0/batch/0?batch_size=512"); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("with %d of %d bytes free: got status %d for a batch that does not fit now, want 503", c.free, total, a.StatusCode)
		}
		most.Release()
	}
	if a := s.get(t, small); a.StatusCode != http.StatusOK || a.Close {
		t.Errorf("got status %d, closed %v once memory is free, want 200 and false", a.StatusCode, a.Close)
	}
}

// TestPlanOfChunksOfOneSample: a plan is also possible for the smallest windows of the largest
// samples.
func TestPlanOfChunksOfOneSample(t *testing.T) {
	s := newStack(t, 8, 4<<10, 1<<10, 4<<20)
	for _, name := range []string{"none", "window", "slot", "full"} {
		path := "/v1/datasets/photos/epochs/0?batch_size=1&shuffle=" + name
		if name == "window" || name == "slot" {
			path += "&window=1"
		}
		if a := s.get(t, path); a.StatusCode != http.StatusOK || !bytes.Contains(a.body, []byte(`"expected_batch_variance":1,`)) {
			t.Errorf("%s: got status %d and %s, want 200 and a variance of 1", name, a.StatusCode, a.body)
		}
	}
}

// TestLargePlansAreReserved: the memory for planning a request with very many samples is reserved
// in the budget.
func TestLargePlansAreReserved(t *testing.T) {
	s := newStack(t, 512, 1<<10, 256<<10, 4<<20)
	for _, path := range []string{
		"/v1/datasets/photos/epochs/0/batches/0/manifest?tail=pad&batch_size=65536",
		"/epoch/0/batch/0?tail=pad&batch_size=65536",
	} {
		checkProblem(t, s.get(t, path), 400, "batch_too_large", false)
	}
	path := "/v1/datasets/photos/epochs/0/batches/0/manifest?tail=pad&batch_size=18000"
	if a := s.get(t, path); a.StatusCode != http.StatusOK || bytes.Count(a.body, []byte(`"key"`)) != 18000 {
		t.Errorf("got status %d and %d bytes, want 200 and 18000 samples", a.StatusCode, len(a.body))
	}
	all := s.hold(t, 0)
	defer all.Release()
	checkProblem(t, s.get(t, path), 503, "overloaded", true)
	checkProblem(t, s.get(t, "/v1/datasets/photos/occurrences?key=s000001&epochs=0-99&tail=pad&batch_size=18000"), 503, "overloaded", true)
	checkProblem(t, s.get(t, "/v1/datasets/photos/occurrences?key=s000001&epochs=0-999&tail=pad&batch_size=65536"), 400, "invalid_argument", false)
}

// TestFlippedBitNeverLeaves: the store returns one wrong bit with the right ETag, and the gateway
// does not send it.
func TestFlippedBitNeverLeaves(t *testing.T) {
	s := newStack(t, 512, 4<<10, 256<<10, 64<<20)
	const at = 700 << 10 // in the middle of shard 1
	flip := true
	s.store.SetFault(func(c memstore.Call) memstore.Fault {
		if !flip || c.Op != memstore.Read || c.Key != "data/train-1.tar" || at < c.Offset || at >= c.Offset+c.Length {
			return memstore.Fault{}
		}
		return memstore.Fault{Corrupt: func(p []byte) { p[at-c.Offset] ^= 4 }}
	})
	p := checkProblem(t, s.get(t, "/epoch/0/batch/0?batch_size=512"), 502, "store_inconsistent", false)
	if p.Shard == nil || *p.Shard != 1 || p.Offset == nil || p.Length == nil || at < *p.Offset || at >= *p.Offset+*p.Length {
		t.Errorf("got shard %v, offset %v, length %v, want shard 1 and a range around %d", p.Shard, p.Offset, p.Length, at)
	}
	flip = false
	if a := s.get(t, "/epoch/0/batch/0?batch_size=512"); a.StatusCode != http.StatusOK || len(names(t, a.body)) != 512 {
		t.Errorf("got status %d after the store is sound again, want 200 and 512 samples", a.StatusCode)
	}
}
