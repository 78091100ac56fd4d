package plans

import (
	"context"
	"fmt"
	"slices"
)

// Bounds of the part names that are kept of a dataset.
const (
	maxNames     = 4096
	maxNameBytes = 1 << 20
)

// PartNames learns from the index which parts the samples of a dataset have. It reads chunk after chunk, each once, until
// the names that are asked for are found. Only a name that no sample has makes it read the whole index, and only once.
type PartNames struct {
	index  Texts
	chunks int
	turn   chan struct{} // a lock that respects contexts: it holds a token while a request uses the fields below

	known map[string]bool
	bytes int
	next  int  // the first chunk that was not read yet
	many  bool // there are more names than are kept
}

func newPartNames(x Index) *PartNames {
	return &PartNames{index: x, chunks: x.Chunks(), turn: make(chan struct{}, 1), known: map[string]bool{}}
}

// enter locks n.
func (n *PartNames) enter(ctx context.Context) (leave func(), err error) {
	select {
	case n.turn <- struct{}{}:
		return func() { <-n.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("part names: %w", ctx.Err())
	}
}

// missing returns those of some names that no sample has; none where the dataset has more names than are kept.
func (n *PartNames) missing(ctx context.Context, names []string) ([]string, error) {
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
		if n.next == n.chunks {
			return absent, nil
		}
		if err := n.read(ctx); err != nil {
			return nil, err
		}
	}
}

// All returns the names of all parts in byte order. ok is false where the dataset has more names than are kept.
func (n *PartNames) All(ctx context.Context) (names []string, ok bool, err error) {
	leave, err := n.enter(ctx)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	for n.next < n.chunks && !n.many {
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
func (n *PartNames) read(ctx context.Context) error {
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
