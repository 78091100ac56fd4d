package chunkindex

// hadHidden counts the shards of the current generation that this run leaves out because they are hidden.
func (b *builder) hadHidden() int {
	if b.old == nil || len(b.hidden) == 0 {
		return 0
	}
	n := 0
	for i := range b.old.shards {
		if b.hidden[b.old.shards[i].Key] {
			n++
		}
	}
	return n
}
