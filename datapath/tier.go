package datapath

import (
	"context"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/pause"
)

// tier is a source of bytes behind memory: the disk, the former owner of a chunk, the store. A tier
// passes chunks that it does not have or fails to load to the next tier. ownersTier and hereTier
// are not part of this chain.
type tier interface {
	// Load fills memory. It returns when all of it has arrived or some of it cannot arrive.
	// Each chunk, or sample, is published or fails separately.
	Load(ctx context.Context, l *load, fills []*fill) error
}

// load has the settings that the fills of one caller share. The fills are all whole chunks, or all
// samples.
type load struct {
	source *Source
	held   *gate  // for a prefetch: the gate in which the caller holds a place; nil: a request waits
	part   int64  // maximum bytes of one store read of whole chunks
	toDisk bool   // the caller writes the chunks to disk
	alone  bool   // the samples are for a first batch that does not wait for whole chunks
	spare  []byte // memory for the gaps between samples in one read
	came   tally  // number of bytes of samples, by tier
}

// fill is memory for one chunk, or for samples of one chunk.
type fill struct {
	batch.ChunkRanges                       // its Ranges are the samples
	whole             *chunkcache.Fill[key] // memory of the cache for the whole chunk; nil: samples are needed
	samples           []*sample             // indexed by Seq; the samples of Ranges and others
}

// memory returns the memory of a sample.
func (x *fill) memory(r batch.Range) []byte { return x.samples[r.Seq].data }

// publish publishes the samples of the fill after all of them have arrived.
func (x *fill) publish() {
	for _, r := range x.Ranges {
		x.samples[r.Seq].Publish()
	}
}

// chain builds the chain of tiers, and returns the first.
func (p *Path) chain() tier {
	var first tier = store{}
	if p.cfg.Peers != nil {
		p.formers = formers{first, pause.NewList[string](pause.Rule{Failures: formerMisses, First: formerRests})}
		first = &p.formers
	}
	if p.disk != nil {
		p.disk.next = first
		first = p.disk
	}
	return first
}

// fillsOf returns the fills for samples of some chunks.
func fillsOf(chunks []batch.ChunkRanges, samples []*sample) []*fill {
	all := make([]fill, len(chunks))
	fills := make([]*fill, len(chunks))
	for i, c := range chunks {
		all[i] = fill{ChunkRanges: c, samples: samples}
		fills[i] = &all[i]
	}
	return fills
}
