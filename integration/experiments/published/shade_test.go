package published

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestShadeKeepsItsQueue checks that the cache never exceeds its capacity, and that the queue is a
// heap of exactly the cached samples.
func TestShadeKeepsItsQueue(t *testing.T) {
	const samples, capacity = 300, 40
	s := NewShade(samples, capacity, 3, 1)
	random := rand.New(rand.NewPCG(1, 1))
	for epoch := range 5 {
		order := s.Epoch(epoch)
		if len(order) != samples {
			t.Fatalf("epoch %d: got %d samples, want %d", epoch, len(order), samples)
		}
		for lo := 0; lo < samples; lo += 50 {
			batch, losses := order[lo:lo+50], make([]float64, 50)
			for i, x := range batch {
				had := s.cached[x]
				if got := s.Access(x); got != had {
					t.Fatalf("sample %d: got hit %v, want %v", x, got, had)
				}
				losses[i] = random.Float64()
			}
			s.Report(batch, losses)
			n := 0
			for x, c := range s.cached {
				if c {
					n++
					if s.queue[s.place[x]] != x {
						t.Fatalf("sample %d is cached, and not at its place in the queue", x)
					}
				}
			}
			if n != len(s.queue) || n > capacity {
				t.Fatalf("got %d cached and %d queued, want the same and at most %d", n, len(s.queue), capacity)
			}
			for i := 1; i < n; i++ {
				if s.less(i, (i-1)/2) {
					t.Fatalf("the queue is no heap at %d", i)
				}
			}
		}
	}
}

func TestShadeWeighsByRankWithinTheBatch(t *testing.T) {
	s := NewShade(4, 4, 1, 1)
	s.Report([]int{2, 0, 3}, []float64{.5, 9, .1})
	want := []float64{math.Log(12), math.Log(138), math.Log(11), math.Log(10)}
	for i, w := range want {
		if math.Abs(s.weight[i]-w) > 1e-12 {
			t.Errorf("sample %d: got weight %v, want %v", i, s.weight[i], w)
		}
	}
}

func TestShadeTakesOnlyWhatScoresMore(t *testing.T) {
	s := NewShade(3, 1, 1, 1)
	s.Access(0)
	s.Report([]int{0, 1}, []float64{1, 2}) // 1 has the higher loss; its score is known, but it is not cached
	s.Report([]int{2}, []float64{0})       // 2 has the lowest rank, like 0
	if s.Access(2); s.cached[2] {
		t.Error("sample 2 was taken in with the score of sample 0, want it passed over")
	}
	if s.Access(1); !s.cached[1] || s.cached[0] {
		t.Error("sample 1 with a higher score did not take the place of sample 0")
	}
}
