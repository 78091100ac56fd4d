package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/client/ledger"
)

// Ledger records which positions of a run a rank has read, in the form that "millrace audit" checks.
// Save String with each checkpoint. A Ledger is safe for concurrent use.
type Ledger struct {
	previous  string // in the first rank: the ledgers that this one continues
	batchSize uint64

	mu   sync.Mutex // guards the field below
	part ledger.Part
}

// NewLedger returns an empty ledger of the rank, plan and start of opt. If the run resumes, previous
// are the ledgers of all ranks in its checkpoint, in any order.
func (c *Client) NewLedger(ctx context.Context, opt Options, previous ...string) (*Ledger, error) {
	name, err := c.DatasetName(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.plan(ctx, name, &opt)
	if err != nil {
		return nil, err
	}
	l := &Ledger{batchSize: p.Parameters.BatchSize, part: p.part(&opt)}
	text := strings.Join(previous, "")
	if err := l.part.Resume(text); err != nil {
		return nil, fmt.Errorf("new ledger: %w", err)
	}
	if opt.Rank == 0 {
		l.previous = text
	}
	return l, nil
}

// part returns the part of a ledger that begins with the first batch of opt.
func (p *plan) part(opt *Options) ledger.Part {
	path, query, _ := strings.Cut(p.Links.Self, "?")
	shared := slices.DeleteFunc(strings.Split(query, "&"), func(s string) bool {
		return strings.HasPrefix(s, "rank=") || strings.HasPrefix(s, "world_size=")
	})
	out := ledger.Part{
		Previous: []string{}, Generation: ledger.Brief(p.Parameters.Generation), Plans: p.plans(),
		URL: path + "?" + strings.Join(shared, "&"), Rank: opt.Rank,
		Ranks: max(opt.WorldSize, 1), Positions: p.delivered(), Read: []ledger.Range{},
	}
	out.Start = ledger.Place{opt.Epoch, opt.From*p.Parameters.BatchSize + opt.skip}
	if out.Start[1] >= out.Positions {
		out.Start = ledger.Place{opt.Epoch + 1, 0}
	}
	return out
}

// Add records that the rank has read a batch.
func (l *Ledger) Add(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := b.Number * l.batchSize
	l.part.Add(b.Epoch, first+b.skip, min(first+l.batchSize, l.part.Positions))
}

// String returns the ledger as text.
func (l *Ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, _ := l.part.Line() // numbers and strings have a JSON form
	return l.previous + string(line)
}
