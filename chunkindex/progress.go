package chunkindex

// Progress reports the state of a long job. Callbacks receive it from one goroutine at a time.
type Progress struct {
	Done, Total int64 // bytes
	Kept        int64 // bytes of Done completed by an earlier run; they do not count towards this run's rate
	Shards, Of  int
	Samples     uint64
}

// Add adds newly completed work.
func (p *Progress) Add(more Progress) {
	p.Done += more.Done
	p.Kept += more.Kept
	p.Shards += more.Shards
	p.Samples += more.Samples
}
