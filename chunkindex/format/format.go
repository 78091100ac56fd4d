// Package format is the seam between the index and the formats of stored shards. A
// format is one scanner, which finds the samples of a shard, and one framing, which
// knows the bytes around the samples of a batch. Serving never parses.
package format

import (
	"context"
	"fmt"
	"io"
)

// Limits that hold for every format.
const (
	MaxKey    = 4096    // bytes of a key, or of a part's extension
	MaxSample = 1 << 30 // bytes of a sample, and so of a chunk
	MaxParts  = 1 << 20 // parts of one sample
)

// Format reads shards of one kind.
type Format interface {
	// Name is what the index calls the format: "tar".
	Name() string
	// Rules is the version of the rules by which Scan finds samples. It is raised when a shard that was
	// read before would give other samples, so that nothing kept from older rules is mixed with newer ones.
	Rules() int
	// Match says by its key whether an object can be a shard of this format.
	Match(key string) bool
	// Scan reads the decoded bytes of one shard, once and in sequence, and tells out where its
	// samples lie. Every byte is handed to out, as a gap or as data, in order.
	Scan(ctx context.Context, shard io.Reader, out Sink) error
}

// Sink takes what a scanner finds. It computes all digests and cuts the chunks.
// A sample is Begin, Data and parts in any number, End.
type Sink interface {
	// Gap takes bytes that lie between samples.
	Gap(p []byte) error
	// Begin says that a sample of this key starts at the current offset.
	Begin(key string) error
	// Ahead says that at least n more bytes of this sample will follow, so that a
	// sample that is too large is refused before it is read.
	Ahead(n int64) error
	// Data takes bytes of the current sample.
	Data(p []byte) error
	// BeginPart says that a part, such as one member of a tar sample, starts at the current offset.
	BeginPart(ext string) error
	// EndPart ends the part.
	EndPart() error
	// End ends the sample.
	End() error
}

// Error says what is wrong in a shard, and where.
type Error struct {
	Offset int64  // in the shard's decoded bytes
	Name   string // of the member or sample, where it is known
	Reason string
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("at offset %d: %s", e.Offset, e.Reason)
	}
	name := e.Name
	if len(name) > 200 {
		name = name[:200] + "..."
	}
	return fmt.Sprintf("member %q at offset %d: %s", name, e.Offset, e.Reason)
}
