package chunkindex

// Progress of a long job, called from one goroutine at a time.
type Progress struct {
	Done, Total int64 // bytes
	Kept        int64 // bytes of Done that an earlier run has done: no measure of this one's rate
	Shards, Of  int
	Samples     uint64
}

// Add counts what was done since.
func (p *Progress) Add(more Progress) {
	p.Done += more.Done
	p.Kept += more.Kept
	p.Shards += more.Shards
	p.Samples += more.Samples
}
