package history

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Packed is the plan of a dataset of tar shards. It takes samples from the shards themselves and their order from package shuffle,
// which has vectors of an independent implementation. Of the index it believes where chunks begin.
type Packed struct {
	first    []uint64 // sample of each chunk
	defaults chunkindex.Defaults
	names    []string
	data     [][]byte // by sample

	mu     sync.Mutex // guards epochs, and the epochs in it
	epochs map[string]*shuffle.Epoch
}

// ReadPacked reads a dataset. dir holds the index meanwhile.
func ReadPacked(ctx context.Context, store objstore.Store, dataset, dir string) (*Packed, error) {
	x, err := chunkindex.Open(ctx, store, dataset+"/", chunkindex.OpenOptions{CacheDir: dir})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	p := &Packed{first: append([]uint64(nil), x.First()...), defaults: x.Defaults(), epochs: map[string]*shuffle.Epoch{}}
	err = store.List(ctx, dataset+"/", func(o objstore.Object) error {
		if !strings.HasSuffix(o.Key, ".tar") {
			return nil
		}
		shard := make([]byte, o.Size)
		if err := store.ReadRange(ctx, o.Ref(), 0, shard); err != nil {
			return err
		}
		return p.read(strings.TrimPrefix(o.Key, dataset+"/"), shard)
	})
	if err == nil && uint64(len(p.names)) != x.Samples() {
		err = fmt.Errorf("%d samples are in the shards, %d in the index", len(p.names), x.Samples())
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dataset, err)
	}
	return p, nil
}

// read adds the samples of a shard: members in a row with the same name up to the first dot.
func (p *Packed) read(key string, shard []byte) error {
	in := bytes.NewReader(shard)
	members := tar.NewReader(in)
	for begin, last := 0, ""; ; {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		end := len(shard) - in.Len() + int(h.Size+511)&^511
		dir, base := path.Split(h.Name)
		base, _, _ = strings.Cut(base, ".")
		if name := sampleName(key, dir+base); name == last {
			p.data[len(p.data)-1] = shard[begin-len(p.data[len(p.data)-1]) : end]
		} else {
			p.names, p.data, last = append(p.names, name), append(p.data, shard[begin:end]), name
		}
		begin = end
	}
}

// Samples returns the names of all samples.
func (p *Packed) Samples() []string { return p.names }

// Batch returns the bytes and the samples of a batch.
func (p *Packed) Batch(address string) (body []byte, samples []string, err error) {
	numbers, err := p.numbers(address)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		samples = append(samples, p.names[n])
		body = append(body, p.data[n]...)
	}
	return append(body, make([]byte, 1024)...), samples, nil
}

// numbers returns the samples of a URL in order.
func (p *Packed) numbers(address string) ([]uint64, error) {
	where, query, _ := strings.Cut(address, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(where, "/") // .../epochs/E/batches/B or .../epoch/E/batch/B
	if len(parts) < 4 || parts[len(parts)-1] == "batches" {
		return nil, fmt.Errorf("%s is no batch: %w", where, errors.ErrUnsupported)
	}
	parts = parts[len(parts)-4:]
	var faults []error
	number := func(text string, otherwise uint64) uint64 {
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		faults = append(faults, err)
		return n
	}
	params := shuffle.Params{
		Shuffle: cmp.Or(q.Get("shuffle"), p.defaults.Shuffle), Window: number(q.Get("window"), p.defaults.Window), Seed: number(q.Get("seed"), p.defaults.Seed),
	}
	batching := shuffle.Batching{Samples: uint64(len(p.names)), BatchSize: number(q.Get("batch_size"), p.defaults.BatchSize), Tail: shuffle.Short}
	rank, world := number(q.Get("rank"), 0), number(q.Get("world_size"), 1)
	homes := number(q.Get("homes"), world)
	e, m := number(parts[1], 0), number(parts[3], 0)
	for name := range q {
		if !strings.Contains(" shuffle window seed batch_size rank world_size share homes generation tail ", " "+name+" ") {
			faults = append(faults, fmt.Errorf("parameter %s is unknown", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	epoch, err := p.epoch(params, e)
	if err != nil {
		return nil, err
	}
	if shuffle.Sharing(q.Get("share")) != shuffle.Locality || homes <= 1 {
		return epoch.AppendShare(nil, batching.Share(m, rank, world)), nil
	}
	whole := batching.Share(m, 0, 1)
	all := epoch.AppendShare(nil, whole)
	var mine []uint64
	for _, place := range epoch.DealHomes(whole, rank, world, homes) {
		mine = append(mine, all[place])
	}
	return mine, nil
}

// epoch returns an epoch of a plan, which is made once.
func (p *Packed) epoch(params shuffle.Params, number uint64) (*shuffle.Epoch, error) {
	name := fmt.Sprint(params, number)
	if e := p.epochs[name]; e != nil {
		return e, nil
	}
	plan, err := shuffle.NewPlan(params, p.first)
	if err != nil {
		return nil, err
	}
	p.epochs[name] = plan.Epoch(number)
	return p.epochs[name], nil
}
