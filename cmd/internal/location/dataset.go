package location

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Dataset is an open dataset: its index, and the stores of the shards and of the index.
type Dataset struct {
	Loc   Location
	Store objstore.Store // store of the shards
	Home  objstore.Store // store of the index, and of the losses and selections stored with it
	Index *chunkindex.Index
	Close func()
}

// OpenIndex opens the stores of a location and its index.
func (s *Stores) OpenIndex(ctx context.Context, l Location, opt chunkindex.OpenOptions) (Dataset, error) {
	d, err := s.OpenStores(l)
	if err != nil {
		return Dataset{}, err
	}
	done := d.Close
	d.Close = func() {
		if d.Index != nil {
			_ = d.Index.Close() // reads only, so an error does not matter
		}
		done()
	}
	if d.Index, err = d.OpenIndex(ctx, opt); err != nil {
		d.Close()
		return Dataset{}, err
	}
	return d, nil
}

// OpenStores opens the stores of a location. Close closes them.
func (s *Stores) OpenStores(l Location) (Dataset, error) {
	d := Dataset{Loc: l}
	var err error
	if d.Store, d.Close, err = s.Open(l, false); err != nil {
		return Dataset{}, err
	}
	d.Home = d.Store
	if l.Index != nil {
		done := d.Close
		home, doneHome, err := s.Open(*l.Index, false)
		if err != nil {
			done()
			return Dataset{}, err
		}
		d.Home = home
		d.Close = func() {
			doneHome()
			done()
		}
	}
	return d, nil
}

// OpenIndex opens an index of the dataset whose stores are open. The caller closes the index.
func (d Dataset) OpenIndex(ctx context.Context, opt chunkindex.OpenOptions) (*chunkindex.Index, error) {
	at := d.Loc.OfIndex()
	opt.Name = at.IndexName
	var err error
	if d.Index, err = chunkindex.Open(ctx, d.Home, at.Prefix, opt); err != nil {
		return nil, Explain(ctx, "open dataset", at, d.Home, err)
	}
	if err := d.belongs(ctx); err != nil {
		_ = d.Index.Close() // reads only, so an error does not matter
		return nil, err
	}
	return d.Index, nil
}

// belongs checks that the index fits the shards: an index made with --follow-links requires the links option, and the
// first shard of an index stored elsewhere must exist at the address.
func (d Dataset) belongs(ctx context.Context) error {
	if d.Index.Links() && !d.Loc.Links {
		return fmt.Errorf("open dataset %s: its index was made with --follow-links: use the address %s,%s%s", d.Loc, d.Loc.Address(), linksOption, followLinks)
	}
	if d.Loc.Index == nil && d.Index.Data() == "" || d.Index.Shards() == 0 {
		return nil
	}
	shard := d.Index.Shard(0).Key
	_, err := d.Store.Stat(ctx, d.Loc.Prefix+shard)
	if errors.Is(err, objstore.ErrNotFound) && d.Loc.Index == nil {
		of := d.Index.Data() + strings.TrimPrefix(d.Loc.String(), d.Loc.Shards())
		return fmt.Errorf("open dataset %s: this is the index of %s: open %s,%s%s", d.Loc, of, of, indexOption, d.Loc.Shards())
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("open dataset %s: shard %q of the index at %s does not exist; check that the index belongs to this dataset: %w", d.Loc, shard, d.Loc.Index, err)
	}
	return err
}

// Tokens describes a sample of token files. It reads the start of the first chunk: an implausibly
// large maximum token reveals a wrong type.
func (d Dataset) Tokens(ctx context.Context) string {
	x := d.Index
	if x.Format() != framing.Tokens || x.Chunks() == 0 {
		return ""
	}
	dtype, shape := x.Framing().(format.Array).Item()
	e := x.Extents(0)[0]
	b, largest := make([]byte, min(e.Length, 1<<20)), "not known"
	if x.Chunk(0).Codec == codec.None && d.Store.ReadRange(ctx, objstore.Ref{Key: d.Loc.Prefix + x.Shard(e.Shard).Key}, e.Offset, b) == nil {
		largest = strconv.FormatUint(framing.LargestToken(dtype, b), 10)
	}
	return fmt.Sprintf("%d tokens of %s and the next one; the largest token at the beginning is %s", shape[0]-1, dtype, largest)
}

// Cause removes the operation and the prefix that chunkindex adds to an error. The prefix is empty
// for a whole bucket or directory. The commands name the dataset by its address instead.
func Cause(l Location, err error) error {
	inner := errors.Unwrap(err)
	if inner == nil {
		return err
	}
	ahead, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok || !strings.HasSuffix(ahead, strconv.Quote(l.Prefix)+": ") {
		return err
	}
	return inner
}

// Explain adds the dataset's address to an error, and advice if its index is missing or outdated.
// It lists the store to find out whether the bucket itself is missing, which the read of one object
// does not show.
func Explain(ctx context.Context, op string, l Location, st objstore.Store, err error) error {
	err = Cause(l, err)
	cure := fmt.Sprintf("run 'millrace index %s'", l.Address())
	if errors.Is(err, chunkindex.ErrOldVersion) {
		return &CureError{fmt.Errorf("%s %s: %w", op, l, err), cure}
	}
	if !errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%s %s: %w", op, l, err)
	}
	enough := errors.New("found an object")
	if listed := st.List(ctx, l.Prefix, func(objstore.Object) error { return enough }); errors.Is(listed, objstore.ErrNotFound) {
		return fmt.Errorf("%s %s: %w", op, l, listed)
	}
	none, ok := errors.AsType[*chunkindex.NoIndexError](err)
	switch {
	case ok && len(none.Has) > 0:
		return fmt.Errorf("%s %s: %w", op, l, none)
	case ok:
		err = none
	}
	return &CureError{fmt.Errorf("%s %s: %w", op, l, err), cure}
}

// CureError is an error with advice.
type CureError struct {
	Err  error
	Cure string // one line
}

func (e *CureError) Error() string { return e.Err.Error() + ": " + e.Cure }
func (e *CureError) Unwrap() error { return e.Err }

// Selections returns the store of the dataset's subsets and quarantines.
func (d Dataset) Selections() (*selection.Store, error) {
	return selection.New(selection.Config{Reader: d.Home, Writer: d.Home, Prefix: d.Loc.OfIndex().Prefix})
}
