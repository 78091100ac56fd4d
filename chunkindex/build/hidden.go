package build

// hadHidden counts the shards of the current generation that this run skips because they are
// hidden. It also returns one of them as an example.
func (b *builder) hadHidden() (n int, example string) {
	if b.old == nil || len(b.hidden) == 0 {
		return 0, ""
	}
	for _, s := range b.old.ShardTable() {
		if b.hidden[s.Key] {
			n, example = n+1, s.Key
		}
	}
	return n, example
}
