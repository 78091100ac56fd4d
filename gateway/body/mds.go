package body

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

const (
	contentMDS = "application/vnd.mosaicml.mds"
	keyColumn  = "__key__"
)

// mdsColumns are the columns of a dataset of another format in MDS form: the keys of samples, and
// their parts as bytes. All batches have the same columns.
type mdsColumns struct {
	Encodings []string `json:"column_encodings"`
	Names     []string `json:"column_names"`
	Sizes     []*int64 `json:"column_sizes"` // nil: variable size
}

// MDSConstants returns the constants of a dataset in MDS form.
func MDSConstants(ctx context.Context, d *plans.Dataset, v address.View) (json.RawMessage, error) {
	if d.Index.Native() == framing.MDS {
		return d.Index.Constants(), nil
	}
	constants, _, err := mdsConstants(ctx, d, v)
	return constants, err
}

// mdsConstants returns one column per part in the view, or one per part of the dataset.
func mdsConstants(ctx context.Context, d *plans.Dataset, v address.View) (json.RawMessage, mdsColumns, error) {
	names := v.Fields
	if names == nil {
		all, ok, err := d.PartNames.All(ctx)
		if err != nil {
			return nil, mdsColumns{}, err
		}
		if !ok {
			return nil, mdsColumns{}, address.Refuse(address.Invalid, "the samples have too many parts for columns: select some with fields=")
		}
		names = all
	}
	if slices.Contains(names, keyColumn) {
		return nil, mdsColumns{}, address.Refuse(address.Invalid, "part %s has the name of the key column: select others with fields=", keyColumn)
	}
	c := mdsColumns{Names: append([]string{keyColumn}, names...)}
	slices.Sort(c.Names)
	for _, name := range c.Names {
		encoding := "bytes"
		if name == keyColumn {
			encoding = "str"
		}
		c.Encodings = append(c.Encodings, encoding)
		c.Sizes = append(c.Sizes, nil)
	}
	constants, err := json.Marshal(c)
	if err != nil {
		return nil, c, fmt.Errorf("columns: %w", err)
	}
	return constants, c, nil
}

// mdsFraming returns the framing for generated constants.
func mdsFraming(constants json.RawMessage) (format.Framing, error) {
	f, err := framing.Read(framing.MDS, constants)
	if err != nil {
		return nil, address.Refuse(address.Invalid, "the parts are not columns: select others with fields=").Because(err)
	}
	return f, nil
}

// sizeColumns returns the sizes of all columns, sample by sample, and the lengths of the samples.
func sizeColumns(names, keys []string, parts [][]part) (sizes, lengths []uint32, err error) {
	sizes, lengths = make([]uint32, 0, len(keys)*len(names)), make([]uint32, len(keys))
	for i, key := range keys {
		total := uint64(4 * len(names))
		for _, name := range names {
			size := uint32(len(key))
			if name != keyColumn {
				size = 0
				if n := partNamed(parts[i], name); n >= 0 {
					size = parts[i][n].Length
				}
			}
			sizes = append(sizes, size)
			total += uint64(size)
		}
		if total > format.MaxSample+maxText {
			return nil, nil, address.Refuse(address.TooLarge, "a sample is too large for an MDS shard")
		}
		lengths[i] = uint32(total)
	}
	return sizes, lengths, nil
}

// layOutMDS lays out samples of another format as an MDS shard. A missing part becomes an empty
// column.
func layOutMDS(ctx context.Context, b *Body, a Answer) error {
	constants, c, err := mdsConstants(ctx, a.Dataset, a.View)
	if err != nil {
		return err
	}
	framing, err := mdsFraming(constants)
	if err != nil {
		return err
	}
	t, err := b.readTexts(ctx, a)
	if err != nil {
		return err
	}
	keys, parts := t.keys, t.parts
	if err := b.checkText(int64(len(b.samples))*int64(4*len(c.Names)+8) + 1<<16); err != nil {
		return err
	}
	for i, key := range keys {
		keys[i] = strings.ToValidUTF8(key, "\uFFFD")
	}
	sizes, lengths, err := sizeColumns(c.Names, keys, parts)
	if err != nil {
		return err
	}
	before, after, err := framing.Frame(lengths)
	if err != nil {
		return unframed(err)
	}
	b.put(before...)
	for i := range b.samples {
		var head []byte
		for j := range c.Names {
			head = binary.LittleEndian.AppendUint32(head, sizes[i*len(c.Names)+j])
		}
		b.put(head...)
		for _, name := range c.Names {
			if name == keyColumn {
				b.putString(keys[i])
			} else if n := partNamed(parts[i], name); n >= 0 {
				b.stretchPart(i, parts[i][n])
			}
		}
	}
	b.put(after...)
	return nil
}
