package plans

import (
	"context"
	"math"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
)

// Limits on the work to measure mixing.
const (
	maxMixed        = 1 << 15 // examined samples: about 10 ms
	maxMixedVirtual = 1 << 13 // the same limit with importance or a subset, which require reading data of each chunk
	bytesPerMixed   = 64      // memory per examined sample: its number, order, chunk and marks
)

// Mixing is the measured mixing of whole batches, or of a rank's shares.
type Mixing struct {
	Batches  uint64   `json:"batches"`                  // examined batches, evenly spaced
	Chunks   float64  `json:"chunks"`                   // average number of chunks per batch
	Variance *float64 `json:"class_variance,omitempty"` // like shuffle.BatchVariance, for the samples' own classes; nil: unknown
}

// measureMixing examines some of a picture's batches. It returns nil if there are none, or if a
// single batch exceeds the limit.
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
	var ends []int // end of each batch in numbers
	for i := range looks {
		share := batching.Share(in.From+portion(i, batches, looks), b.Rank, b.WorldSize)
		if numbers = r.epoch.AppendShare(numbers, share); share.Count > 0 {
			ends = append(ends, len(numbers))
		}
	}
	if len(ends) == 0 {
		return nil, nil
	}
	if _, err := r.resolve(ctx, numbers); err != nil {
		return nil, err
	}
	out := &Mixing{Batches: uint64(len(ends)), Chunks: meanChunks(r.dataset.Index, numbers, ends)}
	m := newClassMeter(r.dataset.Index.ClassRuns(), numbers, r.choice.virtual())
	if m == nil {
		return out, nil
	}
	v := m.variance(numbers, ends)
	if n := float64(len(ends)); m.estimated && looks < batches && n > 1 {
		v *= n / (n - 1) // Bessel's correction: the class shares come from the same samples
	}
	v = math.Round(v*1e4) / 1e4
	out.Variance = &v
	return out, nil
}

// meanChunks returns the average number of chunks that a batch draws from.
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

// classMeter measures the mixing of classes.
type classMeter struct {
	runs      []chunkindex.ClassRun
	share     []float64 // share of all samples, by class
	alike     float64   // probability that two independent samples have the same class
	estimated bool      // share is estimated from the examined samples
}

// newClassMeter returns nil if the classes are unknown, or if all samples have the same class. The
// class shares are those of the dataset. For a plan that does not deliver each sample once,
// newClassMeter estimates them from the given samples.
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

// variance returns the average over batches of the squared deviation of class counts from the class
// shares, summed over classes and relative to independent draws.
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
