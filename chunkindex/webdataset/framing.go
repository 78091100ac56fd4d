// Package webdataset reads tar shards that follow the WebDataset convention: adjacent
// members whose names differ only after the first dot of the base name are one sample.
//
// It parses tar headers itself, because it needs the offsets of headers and padding,
// which archive/tar keeps to itself, and because what is ambiguous between readers is
// refused here instead of being resolved one way or the other.
package webdataset

import "strings"

// Name is what an index calls this format.
const Name = "tar"

// Tar is the format of tar shards.
type Tar struct{}

// Name returns "tar".
func (Tar) Name() string { return Name }

// Rules returns 1: none have been released before.
func (Tar) Rules() int { return 1 }

// Match accepts keys that end in ".tar".
func (Tar) Match(key string) bool { return strings.HasSuffix(key, ".tar") }

// Framing turns samples of tar shards into a tar: two zero blocks follow them.
type Framing struct{}

// ContentType of a batch.
func (Framing) ContentType() string { return "application/x-tar" }

// Frame returns the end-of-archive blocks, whatever the samples are.
func (Framing) Frame([]uint32) (before, after []byte) { return nil, make([]byte, 2*blockSize) }

// Split cuts a member's name where its key ends: at the first dot of its base name. A base
// name without a dot, or with the dot first, is a key with an empty extension.
func Split(name string) (key, ext string) {
	base := strings.LastIndexByte(name, '/') + 1
	i := strings.IndexByte(name[base:], '.')
	if i <= 0 {
		return name, ""
	}
	at := base + i
	return name[:at], name[at+1:]
}
