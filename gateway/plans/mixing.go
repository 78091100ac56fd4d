package plans

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
)

// Bounds of the work to measure how well batches mix.
const (
	maxMixed        = 1 << 15 // samples that are looked at: some 10 ms
	maxMixedVirtual = 1 << 13 // the same with importance or a subset, where what they say of each chunk is read
	bytesPerMixed   = 64      // of a sample that is looked at: its number, order, chunk and marks
)

// Mixing says how well whole batches mix the data, or a rank's shares of them. It is measured.
type Mixing struct {
	Batches  uint64   `json:"batches"`                  // that were looked at, evenly spaced
	Chunks   float64  `json:"chunks"`                   // that a batch draws from, on average
	Variance *float64 `json:"class_variance,omitempty"` // as shuffle.BatchVariance, of the samples' own classes; nil: unknown
}

// measureMixing looks at some of the batches of a picture; nil: there are none, or one alone has too many samples.
func measureMixing(ctx context.Context, r BatchOrder, b address.Batch, in Rectangle) (*Mixing, error) {
	batching, most := b.Batching(), uint64(maxMixed)
	if r.choice.virtual() {
		most = maxMixedVirtual
	}
	if in.From >= in.To {
		return nil, nil
	}
	batches := in.To - in.From
	looks := min(batches, most/max(1, batching.Share(in.From, b.Rank, b.WorldSize).Count))
	var numbers []uint64
	var ends []int // of each batch in numbers
	for i := range looks {
		share := batching.Share(in.From+portion(i, batches, looks), b.Rank, b.WorldSize)
		if numbers = r.epoch.AppendShare(numbers, share); share.Count > 0 {
			ends = append(ends, len(numbers))
		}
	}
	if len(ends) == 0 {
		return nil, nil
	}
	if _, err := r.choice.resolve(ctx, r.dataset.Index.First(), r.plan, r.epoch, numbers); err != nil {
		return nil, err
	}
	out := &Mixing{Batches: uint64(len(ends)), Chunks: meanChunks(r.dataset.Index, numbers, ends)}
	m := newClassMeter(r.dataset.Index.ClassRuns(), numbers, r.choice.virtual())
	if m == nil {
		return out, nil
	}
	v := m.variance(numbers, ends)
	if n := float64(len(ends)); m.estimated && looks < batches && n > 1 {
		v *= n / (n - 1) // the classes' shares are those of the same samples, which lie nearer to them
	}
	v = math.Round(v*1e4) / 1e4
	out.Variance = &v
	return out, nil
}

// meanChunks returns from how many chunks a batch draws its samples, on average.
func meanChunks(x Places, numbers []uint64, ends []int) float64 {
	var chunks []int
	begin, sum := 0, 0
	for _, end := range ends {
		chunks = chunks[:0]
		for _, n := range numbers[begin:end] {
			chunks = append(chunks, x.ChunkOf(n))
		}
		slices.Sort(chunks)
		sum += len(slices.Compact(chunks))
		begin = end
	}
	return math.Round(float64(sum)/float64(len(ends))*1e2) / 1e2
}

// classMeter knows the classes of samples.
type classMeter struct {
	runs      []chunkindex.ClassRun
	share     []float64 // of all samples, that are of each class
	alike     float64   // probability that two samples drawn independently are of one class
	estimated bool      // the shares are those of the samples that are looked at
}

// newClassMeter returns nil where classes are not known, or all samples are of one. The shares are those in the dataset. Of a plan
// that delivers something else than each sample once, they are those of some samples of its epoch.
func newClassMeter(runs []chunkindex.ClassRun, numbers []uint64, virtual bool) *classMeter {
	if len(runs) == 0 {
		return nil
	}
	m := &classMeter{runs: runs, estimated: virtual, share: make([]float64, chunkindex.ClassesOf(runs))}
	begin, all := uint64(0), float64(runs[len(runs)-1].End)
	for _, r := range runs {
		if !virtual {
			m.share[r.Class] += float64(r.End-begin) / all
		}
		begin = r.End
	}
	if virtual {
		for _, n := range numbers {
			m.share[m.class(n)] += 1 / float64(len(numbers))
		}
	}
	for _, s := range m.share {
		m.alike += s * s
	}
	if m.alike > 1-1e-9 {
		return nil
	}
	return m
}

func (m *classMeter) class(sample uint64) int {
	return m.runs[sort.Search(len(m.runs), func(i int) bool { return m.runs[i].End > sample })].Class
}

// variance returns the sum over all classes of the squared distance from the class's share of a batch, divided by what it is for
// independent draws, on average over batches.
func (m *classMeter) variance(numbers []uint64, ends []int) (v float64) {
	counts := make([]float64, len(m.share))
	begin := 0
	for _, end := range ends {
		b, squares, expected := float64(end-begin), 0.0, 0.0
		for _, n := range numbers[begin:end] {
			c := m.class(n)
			squares += 2*counts[c] + 1
			expected += m.share[c]
			counts[c]++
		}
		for _, n := range numbers[begin:end] {
			counts[m.class(n)] = 0
		}
		v += (squares - 2*b*expected + b*b*m.alike) / (b * (1 - m.alike)) / float64(len(ends))
		begin = end
	}
	return max(0, v)
}
