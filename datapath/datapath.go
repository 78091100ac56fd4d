// Package datapath brings the bytes of a batch: memory, then the store.
package datapath

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Config of a Path. The zero value of a field means its default.
type Config struct {
	Budget     *budget.Budget // everything that grows
	Fetchers   int            // store reads side by side, 12
	PartSize   int64          // bytes of one store read, near 16 MiB
	CheckSHA   bool           // compare SHA-256 too when a chunk arrives
	NoPrefetch bool
}

// Path is one process's data path, shared by all its data sets.
type Path struct{}

func New(cfg Config) *Path { return &Path{} }

// Run prefetches until ctx ends, and returns when everything it started has ended.
func (p *Path) Run(ctx context.Context) error { return nil }

// Tables returns a cache for one index's sample tables, under the path's budget.
func (p *Path) Tables() chunkindex.TableCache { return nil }

// Open returns the source of one data set.
func (p *Path) Open(x *chunkindex.Index, store objstore.RangeReader, prefix string) *Source {
	return nil
}

// Stats is a snapshot of the path's counters.
type Stats struct {
	Hits, Misses, Loads, Joins, Evictions uint64
	CachedBytes, CachedChunks             int64
	StoreReads, StoreBytes                uint64
	RangeReads, RangeBytes                uint64 // store reads of samples' own ranges, part of the above
	PrefetchedChunks                      uint64
}

func (p *Path) Stats() Stats { return Stats{} }

// Source reads batches of one data set.
type Source struct{}

// Read brings all ranges of one batch. at says where the reader stands (zero: no plan); it changes speed only.
// Errors: *chunkindex.RangeError, budget.ErrTooLarge, budget.ErrOverloaded, or the context's.
func (s *Source) Read(ctx context.Context, at shuffle.Cursor, chunks []chunkindex.ChunkRanges) (*chunkindex.Body, error) {
	return nil, nil
}
