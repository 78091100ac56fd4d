package chunkindex

// hadHidden counts the shards of the current generation that this run leaves out because they are hidden, and names one.
func (b *builder) hadHidden() (n int, example string) {
	if b.old == nil || len(b.hidden) == 0 {
		return 0, ""
	}
	for i := range b.old.shards {
		if b.hidden[b.old.shards[i].Key] {
			n, example = n+1, b.old.shards[i].Key
		}
	}
	return n, example
}
