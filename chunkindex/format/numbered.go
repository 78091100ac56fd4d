package format

import (
	"strconv"
	"strings"
)

// Numbered returns the key of the nth sample of a shard, counted from 0, in a format whose samples have no names of
// their own. stem is the shard's key without its suffix.
func Numbered(stem string, n uint64) string {
	const digits = 9
	b := make([]byte, 0, len(stem)+1+digits)
	b = append(append(b, stem...), '/')
	for bound := uint64(100_000_000); bound > 1 && n < bound; bound /= 10 {
		b = append(b, '0')
	}
	return string(strconv.AppendUint(b, n, 10))
}

// Plain returns the key of an object without the suffix that says how it is compressed.
func Plain(key string) string { return without(key, []string{".gz", ".zst", ".zstd"}) }

// Stem returns the key of a shard without the suffix that says how it is compressed, and without the first of suffixes
// that it ends in.
func Stem(key string, suffixes ...string) string { return without(Plain(key), suffixes) }

// without leaves a name whole that would have nothing left.
func without(key string, suffixes []string) string {
	for _, s := range suffixes {
		if stem, ok := strings.CutSuffix(key, s); ok && stem != "" && !strings.HasSuffix(stem, "/") {
			return stem
		}
	}
	return key
}
