package client

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
)

// Options selects an epoch and how to read it. A zero plan parameter means the dataset's default,
// which its index stores.
type Options struct {
	Epoch uint64
	From  uint64 // first batch; Resume sets Epoch and From to continue a run
	Until uint64 // batch at which to stop; 0: the end of the epoch
	Step  uint64 // read only every Step-th batch, for several concurrent readers; 0 means 1

	// Plan parameters: written by go generate ./gateway/address.
	BatchSize  uint64  `query:"batch_size"` // samples per global batch (default the dataset's)
	Seed       *uint64 `query:"seed"`       // seed of the shuffle (default the dataset's)
	Shuffle    string  `query:"shuffle"`    // shuffle algorithm (default the dataset's): none, window, slot, full
	Window     uint64  `query:"window"`     // chunks (shuffle window) or lanes (slot) mixed at a time (default the dataset's)
	Strata     uint64  `query:"strata"`     // number of strata: sets of chunks with equal shares of a window (default none)
	Importance string  `query:"importance"` // draw samples by the weights in this snapshot (default none)
	Tail       string  `query:"tail"`       // handling of an incomplete last batch (default the dataset's): short, drop, pad
	Bucket     uint64  `query:"bucket"`     // batches in a block, within which each has samples of similar cost (default 1)
	WorldSize  uint64  `query:"world_size"` // ranks that share each batch (default 1)
	Rank       uint64  `query:"rank"`       // rank whose share is read (default 0)
	Balance    string  `query:"balance"`    // quantity of equal shares: samples, bytes or cost:NAME (default samples)
	Micro      uint64  `query:"micro"`      // micro-batches of about equal cost in each share (default 1)
	Share      string  `query:"share"`      // how a batch is divided among ranks (default contiguous): contiguous, locality
	Homes      uint64  `query:"homes"`      // for share=locality, gateways that serve the ranks (default the world size)
	Subset     string  `query:"subset"`     // subset to read: NAME or DIGEST:NAME (default all samples)
	Quarantine string  `query:"quarantine"` // list of bad samples to replace (default none)
	Generation string  `query:"generation"` // generation to require (default the current one)
	Format     string  `query:"format"`     // format of the batches (default the dataset's)
	Fields     string  `query:"fields"`     // parts of samples to read (default all)
	Table      string  `query:"table"`      // columns of the table of format framed: keys, parts or both (default lengths only)
	// End of the plan parameters.

	Prefetch int  // batches to request ahead; 0 means 2, negative none
	Manifest bool // fetch the manifest of each batch, required for Batch.Sample

	batches uint64 // batches in the epoch, from the first response
	plan    *plan  // the epoch's plan, from Resume
	skip    uint64 // samples at the start of batch From that the run has read before
	folder  folder // directory with batches of a previous run; empty: none
}

// defaultPrefetch hides one round trip behind the consumer's work and holds little memory.
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
		return fmt.Errorf("rank %d: must be less than the world size %d", o.Rank, max(o.WorldSize, 1))
	}
	if o.Manifest && (o.Format != "" || o.Fields != "") {
		return errors.New("option Manifest describes whole samples: it cannot be combined with Format or Fields")
	}
	return nil
}

// Query returns the query parameters that are set, without those of a single batch.
func (o *Options) Query() url.Values {
	whole := *o
	whole.skip = 0
	return whole.query(o.Generation)
}

// query returns the query parameters of a batch that are set, with the given generation.
func (o *Options) query(generation string) url.Values {
	q := url.Values{}
	for name, field := range o.parameters() {
		switch field := field.(type) {
		case **uint64:
			if *field != nil {
				q.Set(name, strconv.FormatUint(**field, 10))
			}
		case *uint64:
			if *field != 0 || name == "rank" && o.WorldSize != 0 {
				q.Set(name, strconv.FormatUint(*field, 10))
			}
		case *string:
			if *field != "" {
				q.Set(name, *field)
			}
		}
	}
	if o.skip > 0 {
		q.Set("skip", strconv.FormatUint(o.skip, 10))
	}
	if q.Del("generation"); generation != "" {
		q.Set("generation", generation)
	}
	return q
}

// Parameter returns a pointer to the field of a plan parameter: *uint64, *string, or **uint64 if 0
// is not the default. For unknown names it returns nil.
func (o *Options) Parameter(name string) any { return o.parameters()[name] }

// parameters returns pointers to the fields of the plan parameters, by name.
func (o *Options) parameters() map[string]any {
	fields := map[string]any{}
	of := reflect.ValueOf(o).Elem()
	for i := range of.NumField() {
		if name := of.Type().Field(i).Tag.Get("query"); name != "" {
			fields[name] = of.Field(i).Addr().Interface()
		}
	}
	return fields
}
