// Package mds reads MDS shards, the format of MosaicML Streaming, using the index.json that its
// writer stores with them.
//
// A sample is stored as the lengths of its variable-size columns, followed by all columns sorted by
// name. The encoded columns are the parts of the sample.
package mds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

const suffix = ".mds"

// Format returns the MDS format.
func Format() format.Format {
	return format.Format{
		Name:   framing.MDS,
		Shards: "an index.json of MosaicML Streaming",
		Survey: survey,
	}
}

// file is the index entry of a file.
type file struct {
	Basename string            `json:"basename"`
	Bytes    int64             `json:"bytes"`
	Hashes   map[string]string `json:"hashes"`
}

// shard is the index entry of a shard.
type shard struct {
	framing.MDSColumns
	Compression *string `json:"compression"`
	Format      string  `json:"format"`
	Raw         *file   `json:"raw_data"`
	Samples     int64   `json:"samples"`
	Version     int     `json:"version"`
	Zip         *file   `json:"zip_data"`
}

// says is the part of a shard's index entry that affects a scan.
type says struct {
	framing.MDSColumns
	Bytes   int64             `json:"bytes"`
	Hashes  map[string]string `json:"hashes,omitempty"`
	Samples int64             `json:"samples"`
}

// survey claims the shards in an index.json with a list of "shards".
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	var index struct {
		Version int     `json:"version"`
		Shards  []shard `json:"shards"`
	}
	found, err := offsets.ReadIndex(ctx, l, "shards", &index)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, stray(l, o)
	}
	if index.Version != 2 {
		return nil, fmt.Errorf("%s has version %d; only version 2 is supported", offsets.IndexKey, index.Version)
	}
	if len(index.Shards) == 0 {
		return nil, fmt.Errorf("%s names no shard", offsets.IndexKey)
	}
	listed, hashes := make([]offsets.Listed, 0, len(index.Shards)), map[string]map[string]string{}
	for i, s := range index.Shards {
		one, err := s.listed(&index.Shards[0])
		if err != nil {
			return nil, fmt.Errorf("%s: shard %d: %w", offsets.IndexKey, i, err)
		}
		listed, hashes[one.Key] = append(listed, one), s.Raw.Hashes
	}
	shards, listed, err := offsets.Match(l.Objects(), listed)
	if err != nil {
		return nil, err
	}
	framing, err := json.Marshal(index.Shards[0].MDSColumns)
	if err != nil {
		return nil, err
	}
	return &format.Dataset{
		Shards:  shards,
		Framing: framing,
		Beside:  []string{offsets.IndexKey},
		Told:    true,
		Scan: func(ctx context.Context, i int, in io.Reader, out format.Sink) error {
			sums := newSums(hashes[listed[i].Key])
			if err := listed[i].Scan(format.NewCursor(ctx, shards[i].Object, io.TeeReader(in, sums), out)); err != nil {
				return err
			}
			return sums.check()
		},
	}, nil
}

// stray returns an error for MDS shards without an index.json, which cannot be read.
func stray(l format.Listing, o format.Options) error {
	for _, object := range l.Objects() {
		switch {
		case !strings.HasSuffix(format.Plain(object.Key), suffix):
		case strings.Contains(object.Key, "/"):
			return fmt.Errorf("shard %.200q: no %s at the top of the indexed directory: index the directory that contains %[2]s, or merge several with streaming.base.util.merge_index",
				object.Key, offsets.IndexKey)
		default:
			return fmt.Errorf("shard %.200q requires an %s with a list of \"shards\" in its directory: copy the file that the writer of the shard stored", object.Key, offsets.IndexKey)
		}
	}
	if o.Named {
		return fmt.Errorf("no %s with a list of \"shards\"", offsets.IndexKey)
	}
	return nil
}

// listed validates the index entry of a shard, and compares it with the first shard's entry.
func (s *shard) listed(first *shard) (offsets.Listed, error) {
	if s.Format != framing.MDS {
		return offsets.Listed{}, fmt.Errorf("format %.100q is not supported, only %q: rewrite the dataset with streaming.MDSWriter", s.Format, framing.MDS)
	}
	if s.Version != 2 {
		return offsets.Listed{}, fmt.Errorf("version %d is not supported, only 2", s.Version)
	}
	if err := s.Check(); err != nil {
		return offsets.Listed{}, err
	}
	if !s.Equal(first.MDSColumns) {
		return offsets.Listed{}, errors.New("its columns differ from those of shard 0")
	}
	if s.Raw == nil || s.Raw.Bytes < 0 || s.Samples < 0 {
		return offsets.Listed{}, errors.New("raw_data or samples is invalid")
	}
	stored := s.Raw
	if s.Zip != nil {
		stored = s.Zip
	}
	if err := s.compressed(stored.Basename); err != nil {
		return offsets.Listed{}, err
	}
	said, err := json.Marshal(says{s.MDSColumns, s.Raw.Bytes, s.Raw.Hashes, s.Samples})
	if err != nil {
		return offsets.Listed{}, err
	}
	return offsets.Listed{Key: stored.Basename, Size: stored.Bytes, Says: string(said), Shard: offsets.Shard{
		Stem: format.Stem(stored.Basename, suffix), Samples: uint64(s.Samples), Bytes: s.Raw.Bytes, Fields: fields(s.MDSColumns), Header: s.header,
	}}, nil
}

// compressed checks that the declared compression of a shard matches the suffix of its name, which
// determines how the shard is read.
func (s *shard) compressed(basename string) error {
	if s.Compression == nil != (s.Zip == nil) {
		return errors.New("compression and zip_data contradict each other")
	}
	name := ""
	if s.Compression != nil {
		name, _, _ = strings.Cut(*s.Compression, ":")
	}
	switch name {
	case "":
		if format.Plain(basename) != basename {
			return fmt.Errorf("basename %.200q indicates compression, but compression is not set", basename)
		}
	case "gz", "zstd":
		if !strings.HasSuffix(basename, "."+name) {
			return fmt.Errorf("basename %.200q does not end in .%s, although it is compressed", basename, name)
		}
	default:
		return fmt.Errorf("compression %.100q is not supported, only gz and zstd: rewrite the shards with one of these, or without compression", name)
	}
	return nil
}

// fields converts the columns to the fields of a scan.
func fields(c framing.MDSColumns) []offsets.Field {
	all := make([]offsets.Field, len(c.Names))
	for i, name := range c.Names {
		all[i].Name = name
		if c.Sizes[i] != nil {
			all[i].Size = *c.Sizes[i]
		}
	}
	return all
}

// header checks that the header of a shard matches the index.
func (s *shard) header(b []byte) error {
	var h shard
	if err := json.Unmarshal(b, &h); err != nil {
		return err
	}
	if h.Format != framing.MDS || h.Version != 2 {
		return fmt.Errorf("its header has format %.100q and version %d, which are not supported", h.Format, h.Version)
	}
	if !h.Equal(s.MDSColumns) {
		return fmt.Errorf("its columns differ from those in %s", offsets.IndexKey)
	}
	return nil
}
