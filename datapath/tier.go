package datapath

import (
	"context"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// tier is a place behind memory that bytes come from: the disk, the former owner of a chunk, the store. What a tier does not have, or fails to bring, it asks the next tier for.
// ownersTier and hereTier stand outside this chain.
type tier interface {
	// Load fills memory. It returns when all has come or some of it cannot. Each chunk, or sample, is
	// published by itself, and may fail by itself.
	Load(ctx context.Context, l *load, fills []*fill) error
}

// load is what the fills of one caller have in common: all of them are whole chunks, or samples.
type load struct {
	source *Source
	held   *gate  // no request waits for the chunks: the caller holds a place of this gate; nil: a request waits
	part   int64  // bytes of one store read of whole chunks at most
	toDisk bool   // the caller writes the chunks to disk
	alone  bool   // the samples are of a first batch that does not wait for whole chunks
	spare  []byte // memory for what lies between samples that one read brings
	came   tally  // bytes of samples
}

// fill is memory for one chunk, or for samples of one.
type fill struct {
	batch.ChunkRanges                       // Ranges are the samples
	whole             *chunkcache.Fill[key] // memory of the cache for all of the chunk; nil: samples are wanted
	samples           []*sample             // of which these are some, by Seq
}

// memory returns the memory of a sample.
func (x *fill) memory(r batch.Range) []byte { return x.samples[r.Seq].data }

// publish shows the samples, all of which have come.
func (x *fill) publish() {
	for _, r := range x.Ranges {
		x.samples[r.Seq].Publish()
	}
}

// chain puts the tiers one before the other.
func (p *Path) chain() tier {
	var first tier = store{}
	if p.cfg.Peers != nil {
		p.formers = newFormers(first)
		first = &p.formers
	}
	if p.disk != nil {
		p.disk.next = first
		first = p.disk
	}
	return first
}

// fillsOf returns what some chunks of a batch want of the tiers.
func fillsOf(chunks []batch.ChunkRanges, samples []*sample) []*fill {
	all := make([]fill, len(chunks))
	fills := make([]*fill, len(chunks))
	for i, c := range chunks {
		all[i] = fill{ChunkRanges: c, samples: samples}
		fills[i] = &all[i]
	}
	return fills
}
