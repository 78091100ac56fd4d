package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// Options names an epoch and says how to read it. The zero value of a plan parameter means the
// dataset's own default, which is stored in its index.
type Options struct {
	Epoch uint64
	From  uint64 // first batch; with Epoch all that a checkpoint needs
	Until uint64 // batch to stop before; 0: the end of the epoch
	Step  uint64 // read every Step-th batch only, for several readers side by side; 0 means 1

	Rank      uint64
	WorldSize uint64 // 0 means 1

	BatchSize  uint64  // samples of a global batch
	Seed       *uint64 // nil: the default
	Shuffle    string
	Window     uint64
	Tail       string
	Importance string // snapshot of weights that samples are drawn by; see Client.Freeze
	Subset     string // subset that epochs deliver: a name, or the digest of a split, a colon and a name, or written out (docs/mixtures.md)
	Quarantine string // digest of a list of bad samples that healthy ones replace
	Strata     uint64 // strata that the chunks of a window come from; 0: none
	Balance    string // what the ranks' shares are to be alike in: samples or bytes
	Share      string // how a global batch is shared out: contiguous, or locality (by where chunks are held)
	Homes      uint64 // of locality: how many homes, and groups of ranks, there are, such as gateways; 0: as many as ranks
	Format     string // form of the batches, as docs/answers.md names it; empty: the dataset's own
	Table      string // what the table of the form framed tells beside lengths: keys, parts or keys,parts; see Batch.Key and Batch.Part
	Fields     string // parts of the samples that are wanted, with commas between their names; empty: all
	Generation string // pinned from the first answer if empty; of several ranks all get the same one (see ErrNoGeneration)

	Prefetch int  // batches asked for ahead of the one being used; 0 means 2, negative none
	Manifest bool // fetch each batch's manifest too: needed for Batch.Sample and Ledger.Add

	batches uint64 // of the epoch, once an answer has said it
	folder  folder // where batches may lie that need not be fetched; empty: nowhere
}

// defaultPrefetch hides one round trip behind the consumer's work without holding much memory.
const defaultPrefetch = 2

func (o *Options) prefetch() int {
	switch {
	case o.Prefetch < 0:
		return 0
	case o.Prefetch == 0:
		return defaultPrefetch
	}
	return o.Prefetch
}

func (o *Options) step() uint64 { return max(o.Step, 1) }

func (o *Options) reader() reader {
	return reader{rank: o.Rank, worldSize: max(o.WorldSize, 1), known: true}
}

func (o *Options) validate() error {
	if o.Rank >= max(o.WorldSize, 1) {
		return fmt.Errorf("rank %d: want less than the world size, %d", o.Rank, max(o.WorldSize, 1))
	}
	if o.Manifest && (o.Format != "" || o.Fields != "") {
		return errors.New("a manifest describes whole samples: it goes with no format and no fields")
	}
	return nil
}

// Query returns the query parameters that the options stand for: those that are set.
func (o *Options) Query() url.Values { return o.query(o.Generation) }

// query writes out the parameters that are set, in the order url.Values gives.
func (o *Options) query(generation string) url.Values {
	q := url.Values{}
	num := func(name string, v uint64, set bool) {
		if set {
			q.Set(name, strconv.FormatUint(v, 10))
		}
	}
	text := func(name, v string) {
		if v != "" {
			q.Set(name, v)
		}
	}
	num("batch_size", o.BatchSize, o.BatchSize != 0)
	num("rank", o.Rank, o.WorldSize != 0)
	num("world_size", o.WorldSize, o.WorldSize != 0)
	num("window", o.Window, o.Window != 0)
	if o.Seed != nil {
		num("seed", *o.Seed, true)
	}
	text("shuffle", o.Shuffle)
	text("tail", o.Tail)
	text("format", o.Format)
	text("table", o.Table)
	text("fields", o.Fields)
	text("importance", o.Importance)
	text("subset", o.Subset)
	text("quarantine", o.Quarantine)
	num("strata", o.Strata, o.Strata != 0)
	text("balance", o.Balance)
	text("share", o.Share)
	num("homes", o.Homes, o.Homes != 0)
	text("generation", generation)
	return q
}
