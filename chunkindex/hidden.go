package chunkindex

import "strings"

// hidden says whether an object is one that programs leave beside data for their own use: a name in its key, relative to the
// prefix, begins with a dot (.DS_Store, ._a.jpg, .git/config, .cache/...), or it is one of the two that Windows leaves. Names
// that begin with an underscore are as often data.
func hidden(key string) bool {
	if strings.HasPrefix(key, ".") || strings.Contains(key, "/.") {
		return true
	}
	base := key[strings.LastIndexByte(key, '/')+1:]
	return strings.EqualFold(base, "Thumbs.db") || strings.EqualFold(base, "desktop.ini")
}

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
