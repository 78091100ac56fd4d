package peer

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// What a Holder says to a Query that it does not answer. None of them says that something is wrong with it.
var (
	ErrNotHere   = errors.New("the chunk is not here")             // and the query asks for nothing to be loaded
	ErrNotServed = errors.New("the dataset is not served here")    // by this name, or not in this generation
	ErrMismatch  = errors.New("the chunk is another one here")     // the digest says so, or there is no such chunk or range
	ErrNoRoom    = errors.New("there is no memory for the answer") // now: nobody waits for memory while another gateway waits for him
)

// Chunk names one chunk of a dataset.
type Chunk struct {
	Dataset    string
	Generation string
	Number     int // in the index
	Digest     [32]byte
}

// Query asks one gateway for ranges of chunks of one dataset.
type Query struct {
	Dataset    string
	Generation string
	Chunks     []Wanted // each chunk once, in ascending order
	Cached     bool     // only what is in memory or on disk: nothing is loaded for it. One chunk at a time.
	Reader     *Reader  // for whom; nil: for nobody whose plan is known
}

// Wanted is what a query wants of one chunk. The digest says that both sides mean the same bytes.
type Wanted struct {
	Chunk  int
	Digest [32]byte
	Ranges []chunkindex.Range // Offset and Length travel; what Seq and CRC32C say stays with the asker
}

// Reader is a rank of a job and where it stands, so that whoever is asked can fetch ahead of it as if it had come
// itself. It changes speed, never bytes. The fields are those of a shuffle.Cursor, its plan by name.
type Reader struct {
	Params     shuffle.Params
	Epoch      uint64
	First, End uint64 // positions of its global batch
	BatchSize  uint64
	Rank       uint64
	WorldSize  uint64
	Split      shuffle.Split
	Homes      uint64 // 0: as many as ranks
	Dealt      bool   // shares are equal in bytes
	Tail       shuffle.Tail
	Think      time.Duration // from the end of an answer to its next request, the mean of late; 0: not known
}

// Holder answers questions from its tiers or from the store. It never asks a question on, and answers one with Cached
// from what is there. The segments of the body are the ranges in the order in which the query lists them. Errors: those
// above are told to the asker, whose client returns them again; any other one, such as those of datapath.Source.Read, is
// told without its words.
type Holder interface {
	Answer(ctx context.Context, q *Query) (*chunkindex.Body, error)
}
