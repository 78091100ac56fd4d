package lookahead

// Limits are how much is read ahead for ranks.
type Limits struct {
	Memory   int64 // of the gateway, of which runs may take a part
	Question int64 // bytes that one gateway is asked for at a time
	Fits     bool  // all that is read fits into the gateway's memory
}

// Sizes of questions, and of what runs may hold.
const (
	QuestionBytes   = 8 << 20 // the usual Limits.Question
	SampleCost      = 128     // bytes that a sample takes in a question beside its own
	questionSamples = 1 << 15 // of one question
	allRuns         = 8       // the part of the memory that all runs may take together, an eighth
	oneRun          = 32      // the part that one run may take
)

// Run returns the bytes that one run may take, but for its first batch.
func (l *Limits) Run() int64 { return l.Memory / oneRun }

// Left returns the bytes that runs may still take where they hold some.
func (l *Limits) Left(held int64) int64 { return l.Memory/allRuns - held }

// Chunks is for how many chunks one run asks an owner that the rank has not begun with. An owner must
// not be made to bring a chunk before its time: it fetches as many ahead by itself, 16, but where
// memory is short it has room for few.
func (l *Limits) Chunks() int {
	if l.Fits {
		return 16
	}
	return 4
}

// Elsewhere says what other gateways are to be asked for.
type Elsewhere interface {
	ChunkOf(sample uint64) int
	Owner(chunk int) string // who is asked for the chunk; "": nobody
	Mean(chunk int) int64   // bytes of one of its samples
}

// question counts what one owner is asked for in a run.
type question struct {
	bytes   int64
	samples int
	chunks  int // that the rank has not begun with
}

// Plan returns the samples of a run that other gateways are asked for, and where the last batch of
// these ends. Batches that would make a question too large are left out, but for the first one.
func (r *Run[T]) Plan(e Elsewhere, l *Limits) (samples []uint64, end uint64) {
	asked := map[string]*question{} // by owner
	belongs := map[int]*question{}  // by chunk; nil: nobody is asked for it
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

// questionOf returns the question that a chunk belongs to, nil if it has no owner to be asked.
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

// passed reports whether some owner would be asked for more than one question may bring, or all for more than a run may take.
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
