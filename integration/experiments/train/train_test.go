package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// clouds holds points around a center for each class.
type clouds struct {
	points [][]float32
	class  []uint8
}

func (c *clouds) Len() int            { return len(c.points) }
func (c *clouds) Row(i int) []float32 { return c.points[i] }

func newClouds(n int, seed uint64) *clouds {
	random := rand.New(rand.NewPCG(seed, 1))
	c := &clouds{}
	for i := range n {
		class := i % 3
		p := make([]float32, 4)
		for j := range p {
			p[j] = float32(random.NormFloat64() * 0.4)
		}
		p[class] += 2
		c.points, c.class = append(c.points, p), append(c.class, uint8(class))
	}
	return c
}

func batchOf(n int) []uint64 {
	b := make([]uint64, n)
	for i := range b {
		b[i] = uint64(i)
	}
	return b
}

func TestBothClassifiersLearn(t *testing.T) {
	for _, hidden := range []int{0, 8} {
		data, test := newClouds(240, 1), newClouds(120, 2)
		n := New(4, hidden, 3, 1)
		var first, last float64
		for step := range 60 {
			losses := n.Step(data, data.class, batchOf(240), 0.1)
			last = 0
			for _, l := range losses {
				last += l / float64(len(losses))
			}
			if step == 0 {
				first = last
			}
		}
		if got := n.Accuracy(test, test.class); got < 0.95 || last > first/2 {
			t.Errorf("hidden %d: got accuracy %v and a loss of %v after %v, want 0.95 and less than half", hidden, got, last, first)
		}
	}
}

// TestGradients checks each gradient against the change of the loss after a small step along one
// weight.
func TestGradients(t *testing.T) {
	for _, hidden := range []int{0, 5} {
		data := newClouds(12, 3)
		n := New(4, hidden, 3, 2)
		for i := range n.w2.w {
			n.w2.w[i] += 0.1 * float32(i%5)
		}
		loss := func() float64 {
			// At rate 0 no weight moves, and momentum accumulates nothing.
			sum := 0.0
			for _, l := range n.Step(data, data.class, batchOf(12), 0) {
				sum += l / 12
			}
			return sum
		}
		for k, p := range n.params {
			for i := 0; i < len(p.w); i += 3 {
				loss()
				want := float64(p.grad[i])
				const h = 1e-2
				p.w[i] += h
				up := loss()
				p.w[i] -= 2 * h
				down := loss()
				p.w[i] += h
				if got := (up - down) / (2 * h); math.Abs(got-want) > .02*math.Abs(want)+2e-3 {
					t.Errorf("hidden %d: parameter %d, weight %d: the loss changes by %v, its gradient is %v", hidden, k, i, got, want)
				}
			}
		}
	}
}

func TestSameSeedSameWeights(t *testing.T) {
	data := newClouds(64, 4)
	once, again := New(4, 6, 3, 5), New(4, 6, 3, 5)
	for range 5 {
		once.Step(data, data.class, batchOf(64), 0.1)
		again.Step(data, data.class, batchOf(64), 0.1)
	}
	if !slices.Equal(once.w1.w, again.w1.w) {
		t.Error("the weights of two runs differ")
	}
}
