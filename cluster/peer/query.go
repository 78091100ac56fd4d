package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// What a Holder says to a Query that it does not answer. None of them says that something is wrong with it.
var (
	ErrNotHere   = errors.New("the chunk is not here")             // and the query asks for nothing to be loaded
	ErrNotServed = errors.New("the dataset is not served here")    // by this name, or not in this generation
	ErrMismatch  = errors.New("the chunk is another one here")     // the digest says so, or there is no such chunk or range
	ErrNoRoom    = errors.New("there is no memory for the answer") // now: an answer waits for no memory, since the asker holds some
)

// Chunk names one chunk of a dataset.
type Chunk struct {
	DatasetGeneration
	Number int // in the index
	Digest [32]byte
}

// Query asks one gateway for ranges of chunks of one dataset.
type Query struct {
	Dataset    string
	Generation string
	Chunks     []ChunkQuery `json:"-"`          // each chunk once, in ascending order
	Cached     bool         `json:",omitempty"` // only one whole chunk from memory or disk: nothing is loaded for it
	Reader     *Reader      `json:",omitempty"` // the rank that needs the ranges; nil: its plan is not known
}

// ChunkQuery asks for ranges of one chunk. The digest ensures that both sides mean the same bytes.
type ChunkQuery struct {
	Chunk  int
	Digest [32]byte
	Ranges []Range
}

// Range is a part of a chunk's decoded bytes.
type Range struct{ Offset, Length uint32 }

// Reader is a rank of a job and where it stands, so that the gateway that is asked can fetch ahead of it as if the rank had come
// itself. It changes speed, never bytes.
type Reader struct {
	Params         shuffle.Params // of its plan
	Epoch          uint64
	shuffle.Cursor               // without plan and epoch, which do not travel
	Think          time.Duration // from the end of an answer to its next request, the mean of late; 0: not known
}

// Holder answers questions from its tiers or from the store. It asks no other gateway, and answers one with Cached from
// memory or disk only. Segments are the ranges in the order in which the query lists them, valid until release. Errors:
// those above reach the asker, whose client returns them again; any other one, such as those of datapath.Source.Read,
// without its words.
type Holder interface {
	Answer(ctx context.Context, q *Query) (segments [][]byte, release func(), err error)
}

// fits returns how many bytes the segments hold, or an error if they are not what q asks for.
func (q *Query) fits(segments [][]byte) (total int64, err error) {
	i := 0
	for _, c := range q.Chunks {
		for _, r := range c.Ranges {
			if i == len(segments) || len(segments[i]) != int(r.Length) {
				return 0, fmt.Errorf("range %d of chunk %d has no segment of its length", i, c.Chunk)
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
