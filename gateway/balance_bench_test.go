package gateway_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// texts returns lines of JSON of 300 bytes on average, in two objects.
func texts(samples int) map[string][]byte {
	random, out := rand.New(rand.NewPCG(1, 2)), map[string][]byte{}
	text := bytes.Repeat([]byte("m"), 600)
	for n := range 2 {
		var b bytes.Buffer
		for i := range samples / 2 {
			fmt.Fprintf(&b, "{\"n\":%d,\"text\":\"%s\"}\n", i, text[:random.IntN(560)])
		}
		out[fmt.Sprintf("part-%d.jsonl", n)] = b.Bytes()
	}
	return out
}

// BenchmarkBalance measures the first request for a batch of 65,536 samples, which divides it, and the
// requests of other ranks, which find the division. Chunks have 2,000 samples.
func BenchmarkBalance(b *testing.B) {
	const samples, size = 1 << 21, 1 << 16
	r := serveChunks(b, texts(samples), 600<<10, func(cfg *gateway.Config) {
		cfg.Budget, cfg.Log = budget.New(2<<30, time.Second), zerolog.Nop()
	})
	get := func(batch, rank, ranks int) {
		const path, batches = "/v1/datasets/photos/epochs/%d/batches/%d?batch_size=%d&balance=bytes&world_size=%d&rank=%d", samples / size
		if a := r.do(http.MethodHead, fmt.Sprintf(path, batch/batches, batch%batches, size, ranks, rank)); a.StatusCode != http.StatusOK {
			b.Fatalf("got status %d", a.StatusCode)
		}
	}
	for _, ranks := range []int{8, 1024} {
		at := 0
		b.Run(fmt.Sprintf("first of %d ranks", ranks), func(b *testing.B) {
			for b.Loop() {
				get(at, ranks-1, ranks)
				at++
			}
		})
		b.Run(fmt.Sprintf("other of %d ranks", ranks), func(b *testing.B) {
			get(0, 0, ranks)
			for b.Loop() {
				get(0, 1, ranks)
			}
		})
	}
}
