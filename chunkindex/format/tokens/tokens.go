// Package tokens reads token files: the .bin and .idx of Megatron, the .bin of llm.c, and flat
// files that contain only tokens, as used by nanoGPT. A sample is a window of a given number of
// tokens plus the next token, so that it contains both inputs and targets. The next window begins
// with that last token. Windows are cut from a shard's tokens sequentially, across documents.
// Tokens at the end of a shard that fill no window are dropped.
//
// Megatron's layout is defined in megatron/core/datasets/indexed_dataset.py of
// https://github.com/NVIDIA/Megatron-LM, and llm.c's layout in dev/data/data_common.py of
// https://github.com/karpathy/llm.c.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// maxWindow limits the bytes of a sample, which is buffered until it is complete.
const maxWindow = 64 << 20

// Format returns the format of token files.
func Format() format.Format {
	return format.Format{
		Name:   framing.Tokens,
		Shards: ".bin with .idx, or --sequence-length",
		Takes:  []format.Option{format.SequenceLength, format.DType},
		Survey: find,
	}
}

// find claims token files if the options state a sequence length. Without a sequence length, it
// returns an error if files exist that can only be token files.
func find(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	s := survey{l: l, o: o}
	s.sort()
	if o.SequenceLength == 0 && o.RecordSize != 0 && !o.Named {
		return nil, nil
	}
	if o.SequenceLength == 0 {
		return nil, s.unsaid(ctx)
	}
	if o.RecordSize != 0 {
		return nil, errors.New("--record-size applies to records, not to tokens: use either --sequence-length or --record-size")
	}
	kind, err := s.choose()
	if err != nil {
		return nil, err
	}
	var files []file
	err = kind.each(ctx, kind.objects, func(object format.Object, f file, err error) error {
		if err != nil {
			return fmt.Errorf("object %s: %w", object.Key, err)
		}
		if len(files) > 0 && f.dtype != files[0].dtype {
			return fmt.Errorf("object %s has tokens of type %s, but object %s has tokens of type %s", files[0].Key, files[0].dtype, f.Key, f.dtype)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.dataset(files)
}

// file is a shard before its scan.
type file struct {
	format.Object
	dtype framing.DType
	start int64 // offset of the first token
	count int64 // number of tokens; -1: up to the end of the file
}

// leftOut returns the number of tokens that fill no window. It returns 0 for a compressed file that
// does not record its number of tokens.
func (f *file) leftOut(windows uint64, sequence int64) int64 {
	n := f.count
	if n < 0 {
		if f.Key != format.Plain(f.Key) {
			return 0
		}
		n = (f.Size - f.start) / int64(f.dtype.Size())
	}
	if windows > 0 {
		n -= int64(windows)*sequence + 1
	}
	return max(0, n)
}

// Named reports whether an object's name is that of a token file. Files with other arrays may have
// the same names.
func Named(key string) bool {
	return slices.Contains([]string{".bin", ".tokens", ".npy"}, format.Ext(key))
}

// dataset returns the dataset whose samples are the windows of the files.
func (s *survey) dataset(files []file) (*format.Dataset, error) {
	dtype := files[0].dtype
	if s.o.SequenceLength < 1 || s.o.SequenceLength > maxWindow/int64(dtype.Size())-1 {
		return nil, fmt.Errorf("sequence length %d: must be from 1 to %d, for samples of up to %d bytes", s.o.SequenceLength, maxWindow/int64(dtype.Size())-1, maxWindow)
	}
	layout, err := framing.NewLayout(dtype, []uint64{uint64(s.o.SequenceLength) + 1})
	if err != nil {
		return nil, err
	}
	d := &format.Dataset{Framing: layout.Constants(), Overlap: int64(dtype.Size()), Beside: slices.Sorted(maps.Keys(s.idxs))}
	for _, f := range files {
		d.Shards = append(d.Shards, format.Shard{Object: f.Object, Says: fmt.Sprintf("%s %d %d", d.Framing, f.start, f.count)})
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		return files[shard].scan(format.NewCursor(ctx, files[shard].Object, in, out), layout.Size())
	}
	d.LeftOut = func(shard int, windows uint64) int64 { return files[shard].leftOut(windows, s.o.SequenceLength) }
	return d, nil
}

// survey is the state of one survey.
type survey struct {
	l format.Listing
	o format.Options

	pairs, bins, npys, others []format.Object // .bin with an .idx, .bin without an .idx, .npy, .tokens
	idxs                      map[string]bool // the .idx files of pairs
}

func (s *survey) sort() {
	s.idxs = map[string]bool{}
	every := map[string]bool{}
	for _, o := range s.l.Objects() {
		if path.Ext(o.Key) == ".idx" {
			every[o.Key] = true
		}
	}
	for _, o := range s.l.Objects() {
		if path.Base(o.Key)[0] == '.' {
			continue
		}
		switch format.Ext(o.Key) {
		case ".bin":
			if idx := format.Stem(o.Key, ".bin") + ".idx"; every[idx] {
				s.pairs, s.idxs[idx] = append(s.pairs, o), true
			} else {
				s.bins = append(s.bins, o)
			}
		case ".npy":
			s.npys = append(s.npys, o)
		case ".tokens":
			s.others = append(s.others, o)
		}
	}
}

// unsaid returns an error if the dataset has token files but the options have no sequence length.
func (s *survey) unsaid(ctx context.Context) error {
	ask := func(cause string) error {
		return &format.ChoiceError{
			Cause: cause + " does not define the number of tokens per sample",
			Ways:  []format.Way{{Flag: "sequence-length", Value: 1024, Effect: "makes samples of 1,024 tokens and the next one"}},
		}
	}
	if s.o.Named {
		return ask("format tokens")
	}
	if len(s.pairs) > 0 {
		idx := format.Stem(s.pairs[0].Key, ".bin") + ".idx"
		head, err := format.Head(ctx, s.l, idx)
		if err != nil {
			return err
		}
		if isIndex(head) {
			return ask("object " + idx + ", an index of Megatron,")
		}
	}
	if len(s.bins) > 0 {
		head, err := format.Head(ctx, s.l, s.bins[0].Key)
		if err != nil {
			return err
		}
		if _, _, ok := llmc(head); ok {
			return ask("object " + s.bins[0].Key + ", a token file of llm.c,")
		}
	}
	return nil
}

// kind is one of the file layouts for tokens.
type kind struct {
	objects []format.Object
	each    func(context.Context, []format.Object, found) error
}

// found receives the result of examining an object, or the error.
type found func(format.Object, file, error) error

// choose returns the only kind that is present, or an error if there are several.
func (s *survey) choose() (kind, error) {
	var here []kind
	for _, k := range []kind{{s.pairs, s.eachPair}, {s.bins, s.byHead(s.flat)}, {s.others, s.byHead(s.flat)}, {s.npys, s.byHead(s.npy)}} {
		if len(k.objects) > 0 {
			here = append(here, k)
		}
	}
	switch len(here) {
	case 0:
		return kind{}, errors.New("--sequence-length was given, but no object's name ends in .bin, .tokens or .npy")
	case 1:
		return here[0], nil
	}
	return kind{}, fmt.Errorf("objects %s and %s have different layouts: an index can have only one kind: .bin with .idx, .bin without .idx, .tokens, or .npy",
		here[0].objects[0].Key, here[1].objects[0].Key)
}
