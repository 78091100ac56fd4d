package gateway_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// BenchmarkBalance measures the first request for a batch of 65,536 samples, which divides it, and the
// requests of other ranks, which find the division.
func BenchmarkBalance(b *testing.B) {
	r := newRig(b, 1<<16, 8, func(cfg *gateway.Config) { cfg.Budget = budget.New(2<<30, time.Second) })
	get := func(batch, rank, ranks int) {
		const path = "/v1/datasets/photos/epochs/%d/batches/0?batch_size=65536&balance=bytes&world_size=%d&rank=%d"
		if a := r.do(http.MethodHead, fmt.Sprintf(path, batch, ranks, rank)); a.StatusCode != http.StatusOK {
			b.Fatalf("got status %d", a.StatusCode)
		}
	}
	for _, ranks := range []int{8, 1024} {
		b.Run(fmt.Sprintf("first of %d ranks", ranks), func(b *testing.B) {
			for i := range b.N {
				get(i, ranks-1, ranks)
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
