// Package train provides two small classifiers that show how a sample order affects learning:
// softmax regression, and a network with one hidden layer and batch normalization. The latter is
// sensitive to poorly mixed batches. Both are trained by stochastic gradient descent with momentum,
// in float32. The same seed and the same batches yield the same weights.
package train

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

const (
	momentum = 0.9
	fade     = 0.9 // decay of the running mean and variance, which batch normalization uses in tests
	epsilon  = 1e-5
)

// Data is a list of rows of numbers.
type Data interface {
	Len() int
	Row(i int) []float32
}

// Net is a classifier.
type Net struct {
	in, hidden, out int
	params          []*param
	w1, gamma, beta *param // of the hidden layer; nil without one
	w2, b2          *param
	mean, variance  []float32 // running values of the hidden layer

	x, z, norm, a, logits matrix // for the current batch
	inverse               []float32
	dlogits, da           matrix
}

// param holds weights, with gradient and velocity.
type param struct{ w, grad, v []float32 }

type matrix struct {
	rows, cols int
	data       []float32
}

func (m *matrix) resize(rows, cols int) {
	m.rows, m.cols = rows, cols
	if cap(m.data) < rows*cols {
		m.data = make([]float32, rows*cols)
	}
	m.data = m.data[:rows*cols]
}

func (m *matrix) row(i int) []float32 { return m.data[i*m.cols : (i+1)*m.cols] }

func vector(v []float32) blas32.Vector { return blas32.Vector{N: len(v), Inc: 1, Data: v} }

// side distributes n pieces of work among the processors. A single processor computes each piece,
// so that sums do not depend on the number of processors.
func side(n int, work func(lo, hi int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { work(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
}

// apply sets out to the products of x and the weights. Each column of out has one row of weights.
// bias may be nil.
func apply(out, x *matrix, w, bias []float32) {
	side(x.rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			o, in := out.row(i), vector(x.row(i))
			for u := range o {
				o[u] = blas32.Dot(in, vector(w[u*x.cols:(u+1)*x.cols]))
				if bias != nil {
					o[u] += bias[u]
				}
			}
		}
	})
}

// gather computes grad, which has the layout of the weights, from the gradients d of the outputs
// for x.
func gather(grad []float32, d, x *matrix) {
	side(d.cols, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			g := grad[u*x.cols : (u+1)*x.cols]
			clear(g)
			for i := range d.rows {
				if f := d.row(i)[u]; f != 0 {
					blas32.Axpy(f, vector(x.row(i)), vector(g))
				}
			}
		}
	})
}

// New returns a classifier with in inputs and out classes. hidden is the width of its hidden layer;
// 0: softmax regression.
func New(in, hidden, out int, seed uint64) *Net {
	n := &Net{in: in, hidden: hidden, out: out}
	random := rand.New(rand.NewPCG(seed, 7))
	last := in
	if hidden > 0 {
		last = hidden
		n.w1 = n.add(in*hidden, func() float32 { return float32(random.NormFloat64() * math.Sqrt(2/float64(in))) })
		n.gamma = n.add(hidden, func() float32 { return 1 })
		n.beta = n.add(hidden, func() float32 { return 0 })
		n.mean, n.variance = make([]float32, hidden), make([]float32, hidden)
		for i := range n.variance {
			n.variance[i] = 1
		}
		n.inverse = make([]float32, hidden)
	}
	scale := 1 / math.Sqrt(float64(last))
	if hidden == 0 {
		scale = 0
	}
	n.w2 = n.add(last*out, func() float32 { return float32(random.NormFloat64() * scale) })
	n.b2 = n.add(out, func() float32 { return 0 })
	return n
}

func (n *Net) add(size int, first func() float32) *param {
	p := &param{make([]float32, size), make([]float32, size), make([]float32, size)}
	for i := range p.w {
		p.w[i] = first()
	}
	n.params = append(n.params, p)
	return p
}

// Step trains on one batch, given by its sample numbers. It returns the loss of each sample before
// the update.
func (n *Net) Step(data Data, class []uint8, batch []uint64, rate float64) []float64 {
	n.load(data, batch)
	n.forward(true)
	losses := make([]float64, len(batch))
	n.dlogits.resize(len(batch), n.out)
	for i, s := range batch {
		p := n.dlogits.row(i)
		losses[i] = softmax(p, n.logits.row(i), class[s])
		p[class[s]]--
		for j := range p {
			p[j] /= float32(len(batch))
		}
	}
	n.backward()
	for _, p := range n.params {
		for i, g := range p.grad {
			p.v[i] = momentum*p.v[i] - float32(rate)*g
			p.w[i] += p.v[i]
		}
	}
	return losses
}

func (n *Net) load(data Data, batch []uint64) {
	n.x.resize(len(batch), n.in)
	for i, s := range batch {
		copy(n.x.row(i), data.Row(int(s)))
	}
}

// softmax fills p with probabilities, and returns the loss for a class.
func softmax(p, logits []float32, class uint8) float64 {
	largest := logits[0]
	for _, v := range logits {
		largest = max(largest, v)
	}
	var sum float64
	for j, v := range logits {
		e := math.Exp(float64(v - largest))
		p[j] = float32(e)
		sum += e
	}
	for j := range p {
		p[j] = float32(float64(p[j]) / sum)
	}
	return math.Log(sum) - float64(logits[class]-largest)
}

func (n *Net) forward(learning bool) {
	last := &n.x
	if n.hidden > 0 {
		n.z.resize(n.x.rows, n.hidden)
		apply(&n.z, &n.x, n.w1.w, nil)
		n.normalise(learning)
		last = &n.a
	}
	n.logits.resize(last.rows, n.out)
	apply(&n.logits, last, n.w2.w, n.b2.w)
}

// normalise computes a from z: it applies batch normalization, and replaces values below 0 by 0.
func (n *Net) normalise(learning bool) {
	n.norm.resize(n.z.rows, n.hidden)
	n.a.resize(n.z.rows, n.hidden)
	mean, variance := n.mean, n.variance
	if learning {
		mean, variance = n.moments()
	}
	for j := range n.inverse {
		n.inverse[j] = float32(1 / math.Sqrt(float64(variance[j])+epsilon))
	}
	for i := range n.z.rows {
		z, norm, a := n.z.row(i), n.norm.row(i), n.a.row(i)
		for j := range z {
			norm[j] = (z[j] - mean[j]) * n.inverse[j]
			a[j] = max(norm[j]*n.gamma.w[j]+n.beta.w[j], 0)
		}
	}
}

// moments returns the mean and variance of a batch, and updates the running values.
func (n *Net) moments() (mean, variance []float32) {
	mean, variance = make([]float32, n.hidden), make([]float32, n.hidden)
	rows := float32(n.z.rows)
	for i := range n.z.rows {
		for j, v := range n.z.row(i) {
			mean[j] += v / rows
		}
	}
	for i := range n.z.rows {
		for j, v := range n.z.row(i) {
			variance[j] += (v - mean[j]) * (v - mean[j]) / rows
		}
	}
	for j := range mean {
		n.mean[j] = fade*n.mean[j] + (1-fade)*mean[j]
		n.variance[j] = fade*n.variance[j] + (1-fade)*variance[j]
	}
	return mean, variance
}

func (n *Net) backward() {
	last := &n.x
	if n.hidden > 0 {
		last = &n.a
	}
	gather(n.w2.grad, &n.dlogits, last)
	clear(n.b2.grad)
	for i := range n.dlogits.rows {
		for j, g := range n.dlogits.row(i) {
			n.b2.grad[j] += g
		}
	}
	if n.hidden == 0 {
		return
	}
	n.da.resize(last.rows, n.hidden)
	clear(n.da.data)
	for i := range n.da.rows {
		for u, g := range n.dlogits.row(i) {
			blas32.Axpy(g, vector(n.w2.w[u*n.hidden:(u+1)*n.hidden]), vector(n.da.row(i)))
		}
	}
	n.denormalise()
	gather(n.w1.grad, &n.da, &n.x)
}

// denormalise converts da from the gradient of a to that of z, and computes the gradients of gamma
// and beta.
func (n *Net) denormalise() {
	clear(n.gamma.grad)
	clear(n.beta.grad)
	for i := range n.da.rows {
		d, norm, a := n.da.row(i), n.norm.row(i), n.a.row(i)
		for j := range d {
			if a[j] <= 0 {
				d[j] = 0
			}
			n.beta.grad[j] += d[j]
			n.gamma.grad[j] += d[j] * norm[j]
		}
	}
	rows := float32(n.da.rows)
	for i := range n.da.rows {
		d, norm := n.da.row(i), n.norm.row(i)
		for j := range d {
			d[j] = n.gamma.w[j] * n.inverse[j] * (d[j] - n.beta.grad[j]/rows - norm[j]*n.gamma.grad[j]/rows)
		}
	}
}

// Accuracy returns the fraction of the data that the classifier classifies correctly.
func (n *Net) Accuracy(data Data, class []uint8) float64 {
	const batch = 500
	right := 0
	for lo := 0; lo < data.Len(); lo += batch {
		hi := min(lo+batch, data.Len())
		numbers := make([]uint64, 0, batch)
		for i := lo; i < hi; i++ {
			numbers = append(numbers, uint64(i))
		}
		n.load(data, numbers)
		n.forward(false)
		for i := range numbers {
			best := 0
			for j, v := range n.logits.row(i) {
				if v > n.logits.row(i)[best] {
					best = j
				}
			}
			if best == int(class[lo+i]) {
				right++
			}
		}
	}
	return float64(right) / float64(max(data.Len(), 1))
}
