package lookahead

// Limits bound the amount that is read ahead for ranks.
type Limits struct {
	Memory   int64 // memory of the gateway in bytes; runs may take a part of it
	Question int64 // maximum bytes of one query to one gateway
	Fits     bool  // all datasets being read fit into the gateway's memory
}

// Limits of queries, and of the memory for runs.
const (
	QuestionBytes   = 8 << 20 // default of Limits.Question
	SampleCost      = 128     // bytes that each sample adds to a query, in addition to the sample itself
	questionSamples = 1 << 15 // maximum number of samples in one query
	allRuns         = 8       // divisor of the memory for all runs together: an eighth
	oneRun          = 32      // divisor of the memory for one run
)

// Run returns the maximum number of bytes in one run, except for its first batch.
func (l *Limits) Run() int64 { return l.Memory / oneRun }

// Left returns the number of bytes that runs may still take while they hold the given number.
func (l *Limits) Left(held int64) int64 { return l.Memory/allRuns - held }

// Chunks returns the maximum number of chunks in one query that the rank's current batch does not
// use. A query must not make the owner load chunks too early: by itself the owner prefetches 16
// chunks, but with little memory it has room for few.
func (l *Limits) Chunks() int {
	if l.Fits {
		return 16
	}
	return 4
}

// Elsewhere describes the chunks that are requested from other gateways.
type Elsewhere interface {
	ChunkOf(sample uint64) int
	Owner(chunk int) string // the gateway to ask for the chunk; "": none
	Mean(chunk int) int64   // mean bytes of its samples
}

// question is the total of the part of a run that is requested from one owner.
type question struct {
	bytes   int64
	samples int
	chunks  int // chunks that the rank's current batch does not use
}

// Plan returns the samples of a run that are requested from other gateways, and the end of the last
// batch among them. It omits batches that would make a query too large, except the first batch.
func (r *Run[T]) Plan(e Elsewhere, l *Limits) (samples []uint64, end uint64) {
	asked := map[string]*question{} // by owner
	belongs := map[int]*question{}  // by chunk; nil: not requested from another gateway
	var batch []uint64
	for end = r.first; end < r.end; end += r.At.BatchSize {
		var ok bool
		if batch, ok = r.At.Later(batch[:0], (end-r.At.First)/r.At.BatchSize); !ok {
			break
		}
		before := len(samples)
		for _, sample := range batch {
			chunk := e.ChunkOf(sample)
			q, known := belongs[chunk]
			if !known {
				q = r.questionOf(chunk, e.Owner(chunk), asked)
				belongs[chunk] = q
			}
			if q != nil {
				q.bytes, q.samples = q.bytes+e.Mean(chunk)+SampleCost, q.samples+1
				samples = append(samples, sample)
			}
		}
		if end > r.first && l.passed(asked) {
			return samples[:before], end
		}
	}
	return samples, end
}

// questionOf returns the query that a chunk belongs to, or nil if it is not requested from another
// gateway.
func (r *Run[T]) questionOf(chunk int, owner string, asked map[string]*question) *question {
	if owner == "" {
		return nil
	}
	q := asked[owner]
	if q == nil {
		q = &question{}
		asked[owner] = q
	}
	if span, ok := r.At.Epoch.Next(uint64(chunk), r.At.First); !ok || span.From >= r.At.End {
		q.chunks++
	}
	return q
}

// passed reports whether a query exceeds its limits, or whether all queries together exceed the
// limit of a run.
func (l *Limits) passed(asked map[string]*question) bool {
	var all int64
	for _, q := range asked {
		if q.bytes > l.Question || q.samples > questionSamples || q.chunks > l.Chunks() {
			return true
		}
		all += q.bytes
	}
	return all > l.Run()
}
