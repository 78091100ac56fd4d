package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Format returns the format of fixed-size records.
func Format() format.Format {
	return format.Format{
		Name:   framing.Records,
		Shards: "names in .npy, CIFAR's batches, or --record-size",
		Takes:  []format.Option{format.RecordSize, format.DType},
		Survey: find,
	}
}

// find claims flat files if the options state a record size. Otherwise it claims .npy files if no
// other data exists, and otherwise CIFAR's files.
func find(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	if o.SequenceLength != 0 {
		if o.Named || o.RecordSize != 0 {
			return nil, errors.New("--sequence-length applies to tokens, not to records: use either --record-size or --sequence-length")
		}
		return nil, nil
	}
	s := survey{l: l, o: o}
	s.sort()
	var d *format.Dataset
	var err error
	switch {
	case o.RecordSize != 0:
		d, err = s.flat()
	case len(s.npys) > 0 && (o.Named || s.others == 0 && len(s.flats) == 0):
		d, err = s.npy(ctx)
	default:
		d, err = s.cifar(ctx)
	}
	if d == nil && err == nil && o.Named {
		err = errors.New("no .npy or CIFAR file found: other files of fixed-size records require --record-size")
	}
	return d, err
}

// survey is the state of one survey.
type survey struct {
	l format.Listing
	o format.Options

	flats, npys []format.Object
	others      int // number of other objects that do not merely describe data
}

func (s *survey) sort() {
	arrays := map[string]bool{}
	for _, o := range s.l.Objects() {
		if format.Ext(o.Key) == ".npy" {
			arrays[format.Stem(o.Key, ".npy")] = true
		}
	}
	for _, o := range s.l.Objects() {
		switch suffix := format.Ext(o.Key); {
		case strings.HasPrefix(path.Base(o.Key), "."):
		case suffix == ".npy":
			s.npys = append(s.npys, o)
		case isFlat(suffix):
			s.flats = append(s.flats, o)
		case !describes(o.Key), arrays[format.Stem(o.Key, suffix)]: // a.json describes a.npy
			s.others++
		}
	}
}

func isFlat(suffix string) bool { return slices.Contains([]string{".bin", ".raw", ".dat"}, suffix) }

// describes reports whether an object is likely to describe data.
func describes(key string) bool {
	return format.Note(key) || slices.Contains([]string{".txt", ".json"}, strings.ToLower(path.Ext(key)))
}

// flat claims files of records without a header.
func (s *survey) flat() (*format.Dataset, error) {
	switch {
	case len(s.npys) > 0:
		return nil, fmt.Errorf("object %s defines its own record size: omit --record-size", s.npys[0].Key)
	case len(s.flats) == 0:
		return nil, errors.New("--record-size was given, but no object's name ends in .bin, .raw or .dat")
	}
	layout, err := told(s.o)
	if err != nil {
		return nil, err
	}
	for _, o := range s.flats {
		if o.Key == format.Plain(o.Key) && o.Size%layout.Size() != 0 {
			return nil, fmt.Errorf("object %s has %d bytes, which is not a multiple of the record size, %d", o.Key, o.Size, layout.Size())
		}
	}
	return s.dataset(s.flats, layout, func(sc *scanner) error { return sc.all(layout.Size()) }), nil
}

// told returns the layout of records that the options state.
func told(o format.Options) (framing.Layout, error) {
	name := "|u1"
	if o.DType != "" {
		name = o.DType
	}
	dtype, err := framing.ParseDType(name)
	if err != nil {
		return framing.Layout{}, err
	}
	size := int64(dtype.Size())
	if o.RecordSize < 1 || o.RecordSize > format.MaxSample || o.RecordSize%size != 0 {
		return framing.Layout{}, fmt.Errorf("record size %d: must be from 1 to %d, and a multiple of the %d bytes of type %s", o.RecordSize, format.MaxSample, size, dtype)
	}
	return framing.NewLayout(dtype, []uint64{uint64(o.RecordSize / size)})
}

// npy claims arrays whose shapes agree in all axes except the first.
func (s *survey) npy(ctx context.Context) (*format.Dataset, error) {
	head, err := format.Head(ctx, s.l, s.npys[0].Key)
	if err != nil {
		return nil, err
	}
	a, err := framing.ReadNPY(head)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", s.npys[0].Key, err)
	}
	if len(a.Shape) == 1 && !s.o.Named && strings.ContainsAny(a.DType.String(), "iu") {
		return nil, &format.ChoiceError{
			Cause: fmt.Sprintf("object %s is an array of one dimension, so each sample would be one number", s.npys[0].Key),
			Ways: []format.Way{
				{Flag: "sequence-length", Value: 1024, Effect: "makes samples of 1,024 tokens and the next one"},
				{Flag: "format", Value: framing.Records, Effect: "makes each number a sample"},
			},
		}
	}
	layout, err := a.Layout()
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", s.npys[0].Key, err)
	}
	if s.o.DType != "" {
		want, err := framing.ParseDType(s.o.DType)
		if err != nil {
			return nil, err
		}
		if want != a.DType {
			return nil, fmt.Errorf("object %s has elements of %s, not %s", s.npys[0].Key, a.DType, want)
		}
	}
	first := s.npys[0].Key
	return s.dataset(s.npys, layout, func(sc *scanner) error { return sc.array(first, layout) }), nil
}

// dataset returns the dataset of these shards. A scan depends on the layout, so Says includes it.
func (s *survey) dataset(shards []format.Object, layout framing.Layout, scan func(*scanner) error) *format.Dataset {
	d := &format.Dataset{Framing: layout.Constants()}
	for _, o := range shards {
		d.Shards = append(d.Shards, format.Shard{Object: o, Says: string(d.Framing)})
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		o := d.Shards[shard].Object
		return scan(&scanner{Cursor: format.NewCursor(ctx, o, in, out), stem: stem(o.Key)})
	}
	return d
}
