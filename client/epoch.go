package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Epoch configures ReadEpoch: the part of an epoch to read, how to read it, and where to store the
// batches.
type Epoch struct {
	Options              // ReadEpoch sets Prefetch and Manifest, and with AllRanks also Rank
	AllRanks    bool     // read the shares of all ranks concurrently
	Connections int      // maximum concurrent batches; 0 means 8
	Dir         string   // directory for one file per batch, in which complete files are reused; empty: batches are not stored
	Unproved    bool     // fetch no manifests: the bytes are verified, exactly-once delivery is not
	Progress    Progress // called after each batch; nil: no calls
}

// Progress receives the number of bytes read so far and an estimate of the total. Calls never
// overlap.
type Progress func(done, total int64)

// defaultConnections saturates a fast network without holding many batches in memory.
const defaultConnections = 8

// EpochReport is the result of ReadEpoch.
type EpochReport struct {
	Dataset    string        `json:"dataset"`
	Generation string        `json:"generation"`
	Epoch      uint64        `json:"epoch"`
	Batches    uint64        `json:"batches"`
	Samples    uint64        `json:"samples"`
	Padded     uint64        `json:"padded"`
	Bytes      uint64        `json:"bytes"`
	Reused     ReusedBatches `json:"reused"` // the part of the totals above that was read from Dir instead of a gateway

	Took time.Duration `json:"-"`
	// Latencies of the fetched batches, ascending: from the request to the last verified byte,
	// including the manifest.
	Latencies []time.Duration `json:"-"`
	Proof     Proof           `json:"-"`
}

// ReusedBatches counts batches whose files in Dir were complete: their length and CRC-32C match
// those of the gateway.
type ReusedBatches struct {
	Batches uint64 `json:"batches"`
	Samples uint64 `json:"samples"`
	Bytes   uint64 `json:"bytes"`
}

// Proof is the result of ReadEpoch's delivery check, which goes beyond the checksums of batches.
type Proof struct {
	// Of is the unit that was delivered at most once: "sample", or "draw" or "position" if samples
	// may repeat. Empty: nothing was proved.
	Of      string
	Whole   bool   // every unit was delivered, except the dropped ones
	Dropped uint64 // units that the plan drops at the end of the epoch
	Seen    uint64
	Total   uint64 // units in the epoch
}

// plan is the plan of an epoch in a gateway's response, with the dataset's defaults and generation
// filled in.
type plan struct {
	Batches     uint64 `json:"batches"`
	Samples     uint64 `json:"samples"`
	PlanDigests []struct {
		Position uint64 `json:"position"`
		Digest   string `json:"digest"`
	} `json:"plan_digests"`
	Links struct {
		Self string `json:"self"`
	} `json:"links"`
	Parameters struct {
		Generation string `json:"generation"`
		Tail       string `json:"tail"`
		BatchSize  uint64 `json:"batch_size"`
		Importance string `json:"importance"`
		Quarantine string `json:"quarantine"`
		Mixture    bool   `json:"mixture"`
	} `json:"parameters"`
}

// once returns the unit that is delivered exactly once in an epoch of the plan.
func (p *plan) once() string {
	switch {
	case p.Parameters.Importance != "":
		return "draw"
	case p.Parameters.Quarantine != "" || p.Parameters.Mixture:
		return "position"
	}
	return "sample"
}

// plan requests the plan of an epoch.
func (c *Client) plan(ctx context.Context, dataset string, opt *Options) (p plan, err error) {
	at := EpochPath(dataset, opt.Epoch)
	if err := c.JSON(ctx, at, opt.Query(), &p); err != nil {
		return plan{}, err
	}
	if p.Parameters.Generation == "" || p.Parameters.BatchSize == 0 {
		return plan{}, fmt.Errorf("read %s: the response has no valid plan: %w", at, ErrProtocol)
	}
	return p, nil
}

// epochReader reads one epoch for one rank or all ranks.
type epochReader struct {
	client *Client
	Epoch
	plan plan
	came *deliveries // nil: no manifests

	mu   sync.Mutex // guards the fields below
	rep  EpochReport
	done int64 // bytes read
}

// ReadEpoch reads an epoch, or the part that e selects. It proves by the manifests that nothing was
// delivered twice and, for a whole epoch, that nothing is missing. A *DeliveryError describes any
// difference.
func (c *Client) ReadEpoch(ctx context.Context, e Epoch) (EpochReport, error) {
	name, err := c.DatasetName(ctx)
	if err != nil {
		return EpochReport{}, err
	}
	if !e.AllRanks {
		if err := c.agree(ctx, e.Options); err != nil {
			return EpochReport{}, fmt.Errorf("read epoch %d: %w", e.Options.Epoch, err)
		}
	}
	p, err := c.plan(ctx, name, &e.Options)
	if err != nil {
		return EpochReport{}, err
	}
	if e.Dir != "" {
		if e.skip > 0 {
			return EpochReport{}, fmt.Errorf("read epoch %d: Dir stores whole batches, but the state is within batch %d", e.Options.Epoch, e.From)
		}
		if err := folder(e.Dir).prepare(e.Options, e.AllRanks); err != nil {
			return EpochReport{}, err
		}
	}
	r := &epochReader{client: c, Epoch: e, plan: p}
	r.rep = EpochReport{Dataset: name, Generation: p.Parameters.Generation, Epoch: e.Options.Epoch}
	if !e.Unproved {
		r.came = newDeliveries(p.Samples, p.once() != "sample")
	}
	start := time.Now()
	if err := r.read(ctx); err != nil {
		return EpochReport{}, err
	}
	r.rep.Took = time.Since(start)
	slices.Sort(r.rep.Latencies)
	r.rep.Proof, err = r.prove()
	return r.rep, err
}

// read reads the shares of one rank or of all ranks, in the plan's generation.
func (r *epochReader) read(ctx context.Context) error {
	opt := r.Options
	opt.Manifest = r.came != nil
	opt.Generation, opt.folder = r.plan.Parameters.Generation, folder(r.Dir)
	ranks := uint64(1)
	if r.AllRanks {
		ranks = max(opt.WorldSize, 1)
	}
	// Each rank gets an equal number of connections. The reader itself uses one of them.
	opt.Prefetch = max(cmp.Or(r.Connections, defaultConnections)/int(min(ranks, 1<<20)), 1) - 1
	opt.Prefetch = cmp.Or(opt.Prefetch, -1) // Prefetch 0 would select the default
	if ranks == 1 {
		return r.rank(ctx, opt)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for rank := range ranks {
		o := opt
		o.Rank = rank
		readers.Go(func() {
			if err := r.rank(ctx, o); err != nil {
				cancel(err) // only the first error counts
			}
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

func (r *epochReader) rank(ctx context.Context, opt Options) error {
	for b, err := range r.client.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		err = r.take(b, opt)
		b.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// take records one batch and stores it.
func (r *epochReader) take(b *Batch, opt Options) error {
	if r.came != nil {
		r.came.Add(b)
	}
	if r.Dir != "" && !b.kept {
		if err := opt.folder.write(b, opt); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Batches++
	r.rep.Samples += uint64(b.Samples())
	r.rep.Padded += b.Padded
	r.rep.Bytes += uint64(b.size())
	if b.kept {
		r.rep.Reused.Batches++
		r.rep.Reused.Samples += uint64(b.Samples())
		r.rep.Reused.Bytes += uint64(b.size())
	} else {
		r.rep.Latencies = append(r.rep.Latencies, b.took)
	}
	r.done += b.size()
	shares := min(cmp.Or(opt.Until, r.plan.Batches), r.plan.Batches) - opt.From
	if r.AllRanks {
		shares *= max(opt.WorldSize, 1)
	}
	if r.Progress != nil {
		r.Progress(r.done, int64(float64(r.done)/float64(r.rep.Batches)*float64(shares)))
	}
	return nil
}

// prove checks delivery: exactly once for a whole epoch, at most once for a part. If samples may
// repeat, it checks draws or positions instead.
func (r *epochReader) prove() (Proof, error) {
	if r.came == nil {
		return Proof{}, nil
	}
	p := Proof{Of: r.plan.once(), Seen: r.came.Seen(), Total: r.plan.Samples}
	p.Whole = r.From == 0 && r.skip == 0 && (r.Until == 0 || r.Until >= r.plan.Batches) && (r.AllRanks || r.WorldSize <= 1)
	switch {
	case !p.Whole:
		return p, r.came.CheckPart()
	case r.plan.Parameters.Tail != "drop":
		return p, r.came.Check()
	}
	p.Dropped = r.plan.Samples % r.plan.Parameters.BatchSize
	if got := r.came.Missing(); got != p.Dropped {
		fault := fmt.Sprintf("%d %ss missing, the tail that was dropped has %d", got, p.Of, p.Dropped)
		return p, &DeliveryError{Faults: []string{fault}}
	}
	return p, r.came.CheckPart()
}
