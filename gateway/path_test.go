package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// stack is the real server over the real data path over a store in memory.
type stack struct {
	store  *memstore.Store
	index  *chunkindex.Index
	budget *budget.Budget
	addr   string
}

// newStack serves samples of meanSize bytes in two shards, with a budget of so many bytes.
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
	opt := chunkindex.BuildOptions{ChunkSize: chunkSize, Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 16, Seed: 7, BatchSize: 256, Tail: "short"}}
	if _, err := chunkindex.Build(tb.Context(), s.store, "data/", opt); err != nil {
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
	ln, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- gateway.NewServer(g, gateway.ServerConfig{}).Serve(ctx, ln) }()
	tb.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("serve: %v", err)
		}
		path.Close()
		s.index.Close()
	})
	return s
}

// get asks for a path and returns the answer, read.
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
