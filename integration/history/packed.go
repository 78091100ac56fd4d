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
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// Packed is the plan of a dataset of tar shards. It reads samples from the shards and computes
// their order with package shuffle, which is tested against vectors of an independent
// implementation. The index only supplies chunk borders and defaults.
type Packed struct {
	Generation string // generation of the index

	first    []uint64 // first sample of each chunk
	defaults chunkindex.Defaults
	names    []string
	data     [][]byte // by sample

	mu     sync.Mutex // guards epochs and the epochs in it
	epochs map[string]*shuffle.Epoch
}

// ReadPacked reads a dataset. dir holds the index during the call.
func ReadPacked(ctx context.Context, store objstore.Store, dataset, dir string) (*Packed, error) {
	x, err := chunkindex.Open(ctx, store, dataset+"/", chunkindex.OpenOptions{CacheDir: dir})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	p := &Packed{Generation: x.Generation(), first: append([]uint64(nil), x.First()...), defaults: x.Defaults(), epochs: map[string]*shuffle.Epoch{}}
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

// read adds the samples of a shard: consecutive members with the same name up to the first dot.
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

// share is the parsed URL of a batch.
type share struct {
	params       shuffle.Params
	size         uint64 // samples per global batch
	epoch, batch uint64
	rank, world  uint64
	homes        uint64
	byLocality   bool
}

// parse reads the URL of a batch: .../epochs/E/batches/B or .../epoch/E/batch/B.
func (p *Packed) parse(address string) (s share, err error) {
	where, query, _ := strings.Cut(address, "?")
	q, err := url.ParseQuery(query)
	parts := strings.Split(where, "/")
	if err != nil {
		return s, err
	}
	if len(parts) < 4 || parts[len(parts)-1] == "batches" || q.Has("importance") {
		return s, fmt.Errorf("%s: %w", address, errors.ErrUnsupported)
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
	for name := range q {
		switch value := q.Get(name); {
		case slices.Contains([]string{"shuffle", "window", "seed", "batch_size", "rank", "world_size", "share", "homes", "generation"}, name):
		case name == "tail" && value == string(shuffle.Short), name == "format" && value == "tar":
		default:
			faults = append(faults, fmt.Errorf("%s=%s is unknown", name, value))
		}
	}
	s.params = shuffle.Params{
		Shuffle: cmp.Or(q.Get("shuffle"), p.defaults.Shuffle), Window: number(q.Get("window"), p.defaults.Window), Seed: number(q.Get("seed"), p.defaults.Seed),
	}
	s.size, s.epoch, s.batch = number(q.Get("batch_size"), p.defaults.BatchSize), number(parts[1], 0), number(parts[3], 0)
	s.rank, s.world = number(q.Get("rank"), 0), number(q.Get("world_size"), 1)
	s.homes, s.byLocality = number(q.Get("homes"), s.world), shuffle.Sharing(q.Get("share")) == shuffle.Locality
	return s, errors.Join(faults...)
}

// numbers returns the sample numbers for a URL, in order.
func (p *Packed) numbers(address string) ([]uint64, error) {
	s, err := p.parse(address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	epoch, err := p.epoch(s.params, s.epoch)
	if err != nil {
		return nil, err
	}
	batching := shuffle.Batching{Samples: uint64(len(p.names)), BatchSize: s.size, Tail: shuffle.Short}
	if !s.byLocality || s.homes <= 1 {
		return epoch.AppendShare(nil, batching.Share(s.batch, s.rank, s.world)), nil
	}
	whole := batching.Share(s.batch, 0, 1)
	all := epoch.AppendShare(nil, whole)
	var mine []uint64
	for _, place := range epoch.DealHomes(whole, s.rank, s.world, s.homes) {
		mine = append(mine, all[place])
	}
	return mine, nil
}

// epoch returns an epoch of a plan, and caches it.
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
