package format

import (
	"path"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// Numbered returns the key of the nth sample of a shard, from 0, in a format without sample names.
// stem is the shard's key without its suffix.
func Numbered(stem string, n uint64) string {
	const digits = 9
	b := make([]byte, 0, len(stem)+1+digits)
	b = append(append(b, stem...), '/')
	for bound := uint64(100_000_000); bound > 1 && n < bound; bound /= 10 {
		b = append(b, '0')
	}
	return string(strconv.AppendUint(b, n, 10))
}

// Plain returns the key of an object without the suffix of its compression, as defined by codec.Of.
func Plain(key string) string {
	_, bare := codec.Of(key)
	return bare
}

// Ext returns the lower-case suffix of a plain key: ".jsonl" for "a/B.JSONL.GZ".
func Ext(key string) string { return strings.ToLower(path.Ext(Plain(key))) }

// Stem returns the plain key of a shard without the first matching suffix. If the suffix is the
// whole name, Stem does not remove it.
func Stem(key string, suffixes ...string) string {
	key = Plain(key)
	for _, s := range suffixes {
		if n := len(key) - len(s); n > 0 && strings.EqualFold(key[n:], s) && key[n-1] != '/' {
			return key[:n]
		}
	}
	return key
}
