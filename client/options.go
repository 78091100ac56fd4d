package client

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
)

// Options names an epoch and says how to read it. The zero value of a plan parameter means the
// dataset's own default, which is stored in its index.
type Options struct {
	Epoch uint64
	From  uint64 // first batch; with Epoch all that a checkpoint needs
	Until uint64 // batch to stop before; 0: the end of the epoch
	Step  uint64 // read every Step-th batch only, for several readers side by side; 0 means 1

	// Plan parameters: written by go generate ./gateway/address.
	BatchSize  uint64  `query:"batch_size"` // samples of a global batch (default the dataset's)
	Seed       *uint64 `query:"seed"`       // seed of the order (default the dataset's)
	Shuffle    string  `query:"shuffle"`    // how the order is mixed (default the dataset's): none, window, slot, full
	Window     uint64  `query:"window"`     // chunks (window) or lanes (slot) in memory together (default the dataset's)
	Strata     uint64  `query:"strata"`     // strata that a window's chunks come from (default none)
	Importance string  `query:"importance"` // SNAPSHOT of weights to draw samples by (default none: each comes once)
	Tail       string  `query:"tail"`       // what becomes of a last batch that is not full (default the dataset's): short, drop, pad
	WorldSize  uint64  `query:"world_size"` // ranks that share each batch (default 1)
	Rank       uint64  `query:"rank"`       // number of the rank whose share is read (default 0)
	Balance    string  `query:"balance"`    // what every rank gets an equal share of (default samples): samples, bytes
	Share      string  `query:"share"`      // how ranks share a batch (default contiguous): contiguous, locality
	Homes      uint64  `query:"homes"`      // homes of share locality, such as gateways (default the world size)
	Subset     string  `query:"subset"`     // SUBSET to deliver: NAME, DIGEST:NAME, or written out as train=9,val=1:train (default the whole dataset)
	Quarantine string  `query:"quarantine"` // DIGEST of bad samples that others replace (default none)
	Generation string  `query:"generation"` // HASH of the index's generation to insist on (default the one served)
	Format     string  `query:"format"`     // FORMAT of the batches (default the dataset's own)
	Fields     string  `query:"fields"`     // NAMES of the parts to keep (default all)
	Table      string  `query:"table"`      // COLUMNS of the table of format framed: keys, parts or both (default lengths only)
	// End of the plan parameters.

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

// query writes out the parameters that are set.
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
	if q.Del("generation"); generation != "" {
		q.Set("generation", generation)
	}
	return q
}

// Parameter returns a pointer to the field of a plan parameter: *uint64, *string, or **uint64 where 0 differs from the default.
// Of another name it returns nil.
func (o *Options) Parameter(name string) any { return o.parameters()[name] }

// parameters returns pointers to the fields of the plan parameters, by their names.
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
