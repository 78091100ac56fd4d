package importance

import (
	"context"
	"fmt"
	"sync"
)

// Snapshot contains the frozen weights of all samples of a dataset. It is safe for concurrent use.
type Snapshot struct {
	file    file
	size    int64
	digest  string
	head    *head
	plan    string
	first   []uint64
	totals  []uint64
	crcs    []uint32
	offsets []int64 // start of each chunk's block, and the end of the last block
	cache   blockCache

	coverage, effective float64
}

// Digest returns the snapshot's digest, which is its name.
func (s *Snapshot) Digest() string { return s.digest }

// Generation returns the generation of the dataset whose samples have these weights.
func (s *Snapshot) Generation() string { return s.head.Generation.String() }

// Plan returns the identity of the plan whose losses determined the weights.
func (s *Snapshot) Plan() string {
	plan, _ := splitPlan(s.plan)
	return plan
}

// Epoch returns the epoch of the reported losses.
func (s *Snapshot) Epoch() uint64 { return s.head.Epoch }

// Base returns the digest of the snapshot that provided the weights of samples without reports, or
// "".
func (s *Snapshot) Base() string { return s.head.Base.String() }

// Samples returns the number of samples of the dataset.
func (s *Snapshot) Samples() uint64 { return s.head.Samples }

// Positions returns the number of positions with reported losses.
func (s *Snapshot) Positions() uint64 { return s.head.Positions }

// HotSamples returns the number of hot samples.
func (s *Snapshot) HotSamples() uint64 { return s.head.Hot }

// HotShare returns the requested share of hot samples, from 0 to 1.
func (s *Snapshot) HotShare() float64 { return float64(s.head.HotShare) / millionth }

// Repeat returns the factor for the weight of hot samples.
func (s *Snapshot) Repeat() uint32 { return s.head.Repeat }

// Coverage returns the expected share of samples, from 0 to 1, that an epoch drawn with these
// weights delivers.
func (s *Snapshot) Coverage() float64 { return s.coverage }

// EffectiveSampleSize returns Kish's effective sample size of the weights, in samples.
func (s *Snapshot) EffectiveSampleSize() float64 { return s.effective }

// Totals returns the total weight of each chunk's samples, including repetition. Do not modify the
// slice.
func (s *Snapshot) Totals() []uint64 { return s.totals }

// Weights returns the weights of a chunk's samples in stored order, including repetition. The
// snapshot caches recently used chunks. Do not modify the slice.
func (s *Snapshot) Weights(ctx context.Context, chunk int) ([]uint32, error) {
	b, err := s.block(ctx, chunk)
	if err != nil {
		return nil, err
	}
	return b.weights, nil
}

// Hot returns the set of hot samples of a chunk.
func (s *Snapshot) Hot(ctx context.Context, chunk int) (Hot, error) {
	b, err := s.block(ctx, chunk)
	if err != nil {
		return nil, err
	}
	return b.hot, nil
}

// Close closes the local file. Slices that methods returned remain valid.
func (s *Snapshot) Close() error { return s.file.Close() }

// block returns a chunk's block, whose weights include repetition.
func (s *Snapshot) block(ctx context.Context, chunk int) (*block, error) {
	if b := s.cache.get(chunk); b != nil {
		return b, nil
	}
	if chunk < 0 || chunk >= len(s.totals) {
		return nil, fmt.Errorf("importance %.12s: no chunk %d: there are %d chunks", s.digest, chunk, len(s.totals))
	}
	b, err := s.read(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("importance %.12s: %w", s.digest, err)
	}
	s.repeat(b)
	s.cache.put(chunk, b)
	return b, nil
}

// repeat multiplies the weights of a block's hot samples by the repetition factor.
func (s *Snapshot) repeat(b *block) {
	for i, w := range b.weights {
		b.weights[i] = s.head.repeated(w, b.hot.Has(uint64(i)))
	}
}

// read reads and validates a chunk's block.
func (s *Snapshot) read(ctx context.Context, chunk int) (*block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := chunkEntry{Total: s.totals[chunk], Samples: uint32(s.first[chunk+1] - s.first[chunk]), CRC: s.crcs[chunk]}
	raw := make([]byte, s.offsets[chunk+1]-s.offsets[chunk])
	if _, err := s.file.ReadAt(raw, s.offsets[chunk]); err != nil && len(raw) > 0 {
		return nil, err
	}
	b, err := s.head.decodeBlock(raw, e)
	if err != nil {
		return nil, fmt.Errorf("chunk %d: %w", chunk, err)
	}
	return b, nil
}

// cacheBytes limits the size of a snapshot's block cache.
const cacheBytes = 4 << 20

// blockCache caches recently used blocks. Neighbouring batches use the same chunks.
type blockCache struct {
	mu     sync.Mutex
	chunks map[int]*block
	bytes  int64
}

func (b *block) bytes() int64 { return int64(4*len(b.weights)+len(b.hot)) + 256 }

func (c *blockCache) get(chunk int) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chunks[chunk]
}

// put adds a block. It evicts arbitrary other blocks to make room.
func (c *blockCache) put(chunk int, b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chunks[chunk] != nil || b.bytes() > cacheBytes {
		return
	}
	for other, old := range c.chunks {
		if c.bytes+b.bytes() <= cacheBytes {
			break
		}
		delete(c.chunks, other)
		c.bytes -= old.bytes()
	}
	c.chunks[chunk] = b
	c.bytes += b.bytes()
}
