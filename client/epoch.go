package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Epoch says which part of an epoch ReadEpoch reads, and what becomes of the batches.
type Epoch struct {
	Options              // Prefetch and Manifest are ReadEpoch's to set; Rank too, with AllRanks
	AllRanks    bool     // read the shares of all ranks side by side
	Connections int      // batches under way at a time; 0 means 8
	Dir         string   // where each batch becomes a file, unless it is there whole; empty: no batch is kept
	Unproved    bool     // fetch no manifests: bytes are checked, exactly-once is not
	Progress    Progress // is told after each batch; nil: nobody
}

// Progress is told how many bytes came, of about how many. It is called by one goroutine at a time.
type Progress func(done, total int64)

// defaultConnections keeps a gateway on a fast network busy without holding many batches.
const defaultConnections = 8

// EpochReport is what ReadEpoch read.
type EpochReport struct {
	Dataset    string        `json:"dataset"`
	Generation string        `json:"generation"`
	Epoch      uint64        `json:"epoch"`
	Batches    uint64        `json:"batches"`
	Samples    uint64        `json:"samples"`
	Padded     uint64        `json:"padded"`
	Bytes      uint64        `json:"bytes"`
	Reused     ReusedBatches `json:"reused"` // of the above, what was not fetched

	Took      time.Duration   `json:"-"`
	Latencies []time.Duration `json:"-"` // of the batches that were fetched, ascending: from the request to the last byte checked, manifest included
	Proof     Proof           `json:"-"`
}

// ReusedBatches counts the batches whose files were complete: length and CRC-32C match those of the
// gateway.
type ReusedBatches struct {
	Batches uint64 `json:"batches"`
	Samples uint64 `json:"samples"`
	Bytes   uint64 `json:"bytes"`
}

// Proof is what ReadEpoch proved beyond the bytes of each batch.
type Proof struct {
	Of      string // what came at most once: sample, or draw or position where a sample may come again; empty: nothing is proved
	Whole   bool   // each of them came, but for those that were dropped
	Dropped uint64 // at the end of the epoch, as its plan says
	Seen    uint64
	Total   uint64 // of the epoch
}

// plan is what a gateway makes of plan parameters: its dataset's defaults and generation are filled in.
type plan struct {
	Batches    uint64 `json:"batches"`
	Samples    uint64 `json:"samples"`
	Parameters struct {
		Generation string `json:"generation"`
		Tail       string `json:"tail"`
		BatchSize  uint64 `json:"batch_size"`
		Importance string `json:"importance"`
		Quarantine string `json:"quarantine"`
		Mixture    bool   `json:"mixture"`
	} `json:"parameters"`
}

// once names what comes exactly once in an epoch of the plan.
func (p *plan) once() string {
	switch {
	case p.Parameters.Importance != "":
		return "draw"
	case p.Parameters.Quarantine != "" || p.Parameters.Mixture:
		return "position"
	}
	return "sample"
}

// plan asks for the plan of an epoch.
func (c *Client) plan(ctx context.Context, dataset string, opt *Options) (p plan, err error) {
	at := EpochPath(dataset, opt.Epoch)
	if err := c.JSON(ctx, at, opt.Query(), &p); err != nil {
		return plan{}, err
	}
	if p.Parameters.Generation == "" || p.Parameters.BatchSize == 0 {
		return plan{}, fmt.Errorf("read %s: no plan: %w", at, ErrProtocol)
	}
	return p, nil
}

// epochReader reads one epoch for all its ranks.
type epochReader struct {
	client *Client
	Epoch
	plan   plan
	ledger *Ledger // nil without manifests

	mu   sync.Mutex // guards what follows
	rep  EpochReport
	done int64 // bytes
}

// ReadEpoch reads an epoch, or the part of it that e names, and proves by the manifests that nothing came twice and, of a
// whole epoch, that everything came. A *LedgerError says how the epoch differs from that.
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
		if err := folder(e.Dir).prepare(e.Options, e.AllRanks); err != nil {
			return EpochReport{}, err
		}
	}
	r := &epochReader{client: c, Epoch: e, plan: p}
	r.rep = EpochReport{Dataset: name, Generation: p.Parameters.Generation, Epoch: e.Options.Epoch}
	switch {
	case e.Unproved:
	case p.once() != "sample":
		r.ledger = NewDrawLedger(p.Samples)
	default:
		r.ledger = NewLedger(p.Samples)
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

// read reads the shares of one rank or of all, under the generation of the plan.
func (r *epochReader) read(ctx context.Context) error {
	opt := r.Options
	opt.Manifest = r.ledger != nil
	opt.Generation, opt.folder = r.plan.Parameters.Generation, folder(r.Dir)
	ranks := uint64(1)
	if r.AllRanks {
		ranks = max(opt.WorldSize, 1)
	}
	// Whole connections to each rank; the reader itself waits for one of them.
	opt.Prefetch = max(cmp.Or(r.Connections, defaultConnections)/int(min(ranks, 1<<20)), 1) - 1
	opt.Prefetch = cmp.Or(opt.Prefetch, -1) // 0 would be the default
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
				cancel(err) // the first one counts
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

// take notes and keeps one batch.
func (r *epochReader) take(b *Batch, opt Options) error {
	if r.ledger != nil {
		r.ledger.Add(b)
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
	until := r.plan.Batches
	if opt.Until != 0 {
		until = min(until, opt.Until)
	}
	shares := until - opt.From
	if r.AllRanks {
		shares *= max(opt.WorldSize, 1)
	}
	if r.Progress != nil {
		r.Progress(r.done, int64(float64(r.done)/float64(r.rep.Batches)*float64(shares)))
	}
	return nil
}

// prove closes the books: the whole epoch exactly once, or a part without a repetition. Of an epoch that may deliver a sample
// again the books are of draws or positions, which come once.
func (r *epochReader) prove() (Proof, error) {
	if r.ledger == nil {
		return Proof{}, nil
	}
	p := Proof{Of: r.plan.once(), Seen: r.ledger.Seen(), Total: r.plan.Samples}
	p.Whole = r.From == 0 && (r.Until == 0 || r.Until >= r.plan.Batches) && (r.AllRanks || r.WorldSize <= 1)
	switch {
	case !p.Whole:
		return p, r.ledger.CheckPart()
	case r.plan.Parameters.Tail != "drop":
		return p, r.ledger.Check()
	}
	p.Dropped = r.plan.Samples % r.plan.Parameters.BatchSize
	if got := r.ledger.Missing(); got != p.Dropped {
		fault := fmt.Sprintf("%d %ss missing, the tail that was dropped has %d", got, p.Of, p.Dropped)
		return p, &LedgerError{Faults: []string{fault}}
	}
	return p, r.ledger.CheckPart()
}
