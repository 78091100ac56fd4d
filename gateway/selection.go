package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace-data/millrace/selection"
	"github.com/millrace-data/millrace/shuffle"
)

// Selection keeps how a dataset is cut into subsets, and lists of its bad samples; *selection.Store is one.
type Selection interface {
	Default(ctx context.Context, generation string) (digest string, err error)
	OpenSubset(ctx context.Context, digest, name, generation string, first []uint64) (*selection.Subset, error)
	OpenQuarantine(ctx context.Context, digest, generation string, samples uint64) (selection.Quarantine, error)
}

// maxSubsetName bounds the name of a subset in a URL.
const maxSubsetName = 64

// decodeSelection reads which samples of the dataset a plan delivers.
func (p *planRequest) decodeSelection(q *query) {
	p.quarantine = q.digest("quarantine")
	// What builds a query may escape the colon.
	if s := strings.NewReplacer("%3A", ":", "%3a", ":").Replace(q.values["subset"]); s != "" {
		digest, name, whole := strings.Cut(s, ":")
		if !whole {
			digest, name = "", s
		}
		switch {
		case whole && !isDigest(digest):
			q.fail("subset", "must be a name, or 64 hexadecimal digits in lower case, a colon and a name")
		case !whole && isDigest(name):
			q.fail("subset", "a digest wants a colon and a name after it")
		case len(name) > maxSubsetName || !validName.MatchString(name):
			q.fail("subset", "a name has letters, digits, dot, dash and underscore, at most %d", maxSubsetName)
		default:
			p.params.Subset = s
		}
	}
	if p.params.Importance == "" {
		return
	}
	if q.has("subset") {
		q.fail("subset", "excludes importance: a snapshot weighs all samples of the dataset")
	}
	if q.has("quarantine") {
		q.fail("quarantine", "excludes importance: a snapshot weighs all samples of the dataset")
	}
}

// complete finishes a plan that was decoded without a fault: it finds out which split is meant where none is named, and how
// many samples an epoch has.
func (g *Gateway) complete(ctx context.Context, p *planRequest) error {
	if p.dataset.mixture != nil {
		return p.completeMixture()
	}
	p.samples = p.dataset.Index.Samples()
	if p.params.Subset == "" && p.quarantine == "" {
		return nil
	}
	d := p.dataset
	if d.Selection == nil {
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "this gateway keeps no subsets and no quarantines of the dataset"}
	}
	if p.params.Subset == "" {
		return nil
	}
	if !strings.Contains(p.params.Subset, ":") {
		digest, err := d.defaultSplit(ctx)
		if err != nil {
			return selectionProblem(d, err)
		}
		p.params.Subset = digest + ":" + p.params.Subset
	}
	s, leave, err := g.subsets.acquire(ctx, snapshotKey{dataset: d, name: p.params.Subset})
	if err != nil {
		return err
	}
	p.samples = s.Samples()
	leave()
	return nil
}

// defaultSplit returns the split that is meant where none is named. It never changes, so it is asked for once.
func (d *dataset) defaultSplit(ctx context.Context) (string, error) {
	if known := d.split.Load(); known != nil {
		return *known, nil
	}
	digest, err := d.Selection.Default(ctx, d.Index.Generation())
	if err != nil {
		return "", err
	}
	d.split.Store(&digest)
	return digest, nil
}

// openSubset opens the subset that a key names: digest, colon, name.
func (g *Gateway) openSubset(ctx context.Context, key snapshotKey) (*selection.Subset, error) {
	d := key.dataset
	digest, name, _ := strings.Cut(key.name, ":")
	s, err := d.Selection.OpenSubset(ctx, digest, name, d.Index.Generation(), d.Index.First())
	if err != nil {
		return nil, selectionProblem(d, err)
	}
	return s, nil
}

// quarantine is one that was made for the samples that plans of some parameters order.
type quarantine struct{ *shuffle.Quarantine }

// bytes is what it holds.
func (q quarantine) bytes() int64 { return q.Bytes() }

// Close has nothing to close.
func (quarantine) Close() error { return nil }

// quarantineBytes is what it takes to open a quarantine, whatever is in it.
const quarantineBytes = 12 << 20

// openQuarantine opens a list of bad samples for plans over a dataset or, if the key's parameters name one, a subset.
func (g *Gateway) openQuarantine(ctx context.Context, key snapshotKey) (quarantine, error) {
	d := key.dataset
	list, err := d.Selection.OpenQuarantine(ctx, key.name, d.Index.Generation(), d.Index.Samples())
	if err != nil {
		return quarantine{}, selectionProblem(d, err)
	}
	first, bad := d.Index.First(), list.Numbers()
	if key.params.Subset != "" {
		s, leave, err := g.subsets.acquire(ctx, snapshotKey{dataset: d, name: key.params.Subset})
		if err != nil {
			return quarantine{}, err
		}
		defer leave()
		if bad, err = membersOf(ctx, d, s, bad); err != nil {
			return quarantine{}, err
		}
		first = s.Members()
	}
	q, err := shuffle.NewQuarantine(key.params.Seed, first, bad)
	if err != nil {
		p := invalid("%v", err)
		p.Faults = []fault{{"quarantine", err.Error()}}
		return quarantine{}, p
	}
	return quarantine{q}, nil
}

// membersOf returns the numbers that a subset's plans give to those of some samples, ascending, that belong to it.
func membersOf(ctx context.Context, d *dataset, s *selection.Subset, samples []uint64) ([]uint64, error) {
	p, err := shuffle.NewSubsetPlan(shuffle.Params{Shuffle: shuffle.None, Subset: "its samples"}, d.Index.First(), s.Members())
	if err != nil {
		return nil, err
	}
	var out []uint64
	first := d.Index.First()
	for len(samples) > 0 {
		chunk := d.Index.ChunkOf(samples[0])
		bitmap, err := s.Bitmap(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for ; len(samples) > 0 && samples[0] < first[chunk+1]; samples = samples[1:] {
			if v, ok := p.Members().Of(chunk, bitmap, samples[0]-first[chunk]); ok {
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// selectionProblem gives the errors of a dataset's Selection the words that a user may read, where the table of errors does not.
func selectionProblem(d *dataset, err error) error {
	switch {
	case errors.Is(err, selection.ErrCorrupt): // whatever it is that is wrong in there
		return err
	case errors.Is(err, selection.ErrNoDefault):
		return &problem{
			Status: http.StatusNotFound, Code: codeNotFound, Cause: err,
			Detail: fmt.Sprintf("generation %.12s of the dataset was not cut into subsets: millrace subset does it", d.Index.Generation()),
		}
	case errors.Is(err, selection.ErrNotFound):
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no subset or quarantine of this digest", Cause: err}
	case errors.Is(err, selection.ErrNoSubset):
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: err.Error(), Cause: err}
	case errors.Is(err, selection.ErrGeneration):
		p := invalid("%v; the dataset is of generation %.12s", err, d.Index.Generation())
		p.Cause = err
		return p
	}
	return err
}
