package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// maxNames and maxNameBytes bound the part names that are kept of a dataset.
const (
	maxNames     = 4096
	maxNameBytes = 1 << 20
)

// partNames learns from the index what parts the samples of a dataset have: of as many chunks as it takes to find the names that
// are asked for, and of each chunk once. Only a name that no sample has makes it read all of the index, and only once.
type partNames struct {
	index Index
	turn  chan struct{} // holds a token while somebody uses what follows

	known map[string]bool
	bytes int
	next  int  // the first chunk that was not read yet
	many  bool // there are more names than are kept
}

func newPartNames(x Index) *partNames {
	return &partNames{index: x, turn: make(chan struct{}, 1), known: map[string]bool{}}
}

// enter waits for its turn.
func (n *partNames) enter(ctx context.Context) (leave func(), err error) {
	select {
	case n.turn <- struct{}{}:
		return func() { <-n.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("part names: %w", ctx.Err())
	}
}

// missing returns those of some names that no sample has. Where there are more names than are kept, none is said to be missing.
func (n *partNames) missing(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	leave, err := n.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	absent := slices.Clone(names)
	for {
		absent = slices.DeleteFunc(absent, func(name string) bool { return n.known[name] })
		if len(absent) == 0 || n.many {
			return nil, nil
		}
		if n.next == n.index.Chunks() {
			return absent, nil
		}
		if err := n.read(ctx); err != nil {
			return nil, err
		}
	}
}

// all returns the names of all parts in byte order; ok is false where there are more than are kept.
func (n *partNames) all(ctx context.Context) (names []string, ok bool, err error) {
	leave, err := n.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	for n.next < n.index.Chunks() && !n.many {
		if err := n.read(ctx); err != nil {
			return nil, false, err
		}
	}
	for name := range n.known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, !n.many, nil
}

// read reads one chunk more.
func (n *partNames) read(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("part names: %w", err)
	}
	names, err := n.index.PartNames(ctx, n.next)
	if err != nil {
		return fmt.Errorf("part names: chunk %d: %w", n.next, err)
	}
	for _, name := range names {
		if n.known[name] {
			continue
		}
		if n.bytes += len(name); len(n.known) == maxNames || n.bytes > maxNameBytes {
			n.many = true
			return nil
		}
		n.known[name] = true
	}
	n.next++
	return nil
}

// checkFields refuses names that no sample of the dataset has.
func (d *dataset) checkFields(x *exchange, v view) error {
	defer x.log.spent(phaseResolve, time.Now())
	absent, err := d.names.missing(x.r.Context(), v.fields)
	if err != nil || len(absent) == 0 {
		return err
	}
	q := &query{}
	for _, name := range absent {
		q.fail("fields", "no sample has a part %s", bounded(name))
	}
	return q.err()
}
