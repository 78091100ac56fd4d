package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Errors of a Holder that cannot answer a Query. They do not mean that the gateway is faulty.
var (
	ErrNotHere   = errors.New("this gateway does not have the chunk")        // returned if the query forbids loading
	ErrNotServed = errors.New("this gateway does not serve the dataset")     // no dataset with this name, or another generation
	ErrMismatch  = errors.New("the chunk has other content on this gateway") // the digest differs, or there is no such chunk or range
	ErrNoRoom    = errors.New("no memory is free for the response")          // an answer does not wait for memory, since the asker holds some
	ErrQuota     = errors.New("the quota of the dataset has no memory for the response")
)

// Chunk identifies one chunk of a dataset.
type Chunk struct {
	DatasetGeneration
	Number int // number in the index
	Digest [32]byte
}

// Query asks one gateway for ranges of chunks of one dataset.
type Query struct {
	Dataset    string
	Generation string
	Chunks     []ChunkQuery `json:"-"`          // each chunk once, in ascending order
	Cached     bool         `json:",omitempty"` // the query is for one whole chunk, only from memory or disk: nothing is loaded
	Reader     *Reader      `json:",omitempty"` // the rank that needs the ranges; nil: unknown
}

// ChunkQuery asks for ranges of one chunk. The digest ensures that both gateways refer to the same
// bytes.
type ChunkQuery struct {
	Chunk  int
	Digest [32]byte
	Ranges []Range
}

// Range is a part of a chunk's decoded bytes.
type Range struct{ Offset, Length uint32 }

// Reader is a rank of a job and its position, so that the other gateway can prefetch for it as for
// its own readers. It affects speed, never bytes.
type Reader struct {
	Params         shuffle.Params // parameters of its plan
	Epoch          uint64
	shuffle.Cursor               // without plan and epoch, which are not sent
	Think          time.Duration // recent mean time from the end of an answer to the next request; 0: unknown
}

// Holder answers questions from its tiers or from the store. It asks no other gateway, and answers
// a question with Cached from memory or disk only. Segments are the ranges in the order of the
// query, valid until release. The errors above are sent to the asker, whose client returns them.
// Other errors, such as those of datapath.Source.Read, are sent without their text.
type Holder interface {
	Answer(ctx context.Context, q *Query) (segments [][]byte, release func(), err error)
}

// fits returns the total bytes of the segments, or an error if they do not match q.
func (q *Query) fits(segments [][]byte) (total int64, err error) {
	i := 0
	for _, c := range q.Chunks {
		for _, r := range c.Ranges {
			if i == len(segments) || len(segments[i]) != int(r.Length) {
				return 0, fmt.Errorf("range %d of chunk %d has no segment with its length", i, c.Chunk)
			}
			total += int64(r.Length)
			i++
		}
	}
	if i != len(segments) {
		return 0, fmt.Errorf("%d segments for %d ranges", len(segments), i)
	}
	return total, nil
}
