package rowgroup_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/rows/rowstest"
)

// footer reads the footer of a whole file.
func footer(b []byte) (*rowgroup.File, error) {
	if len(b) < 12 || string(b[len(b)-4:]) != "PAR1" {
		return nil, errors.New("no Parquet file")
	}
	end := len(b) - 8
	n := int(binary.LittleEndian.Uint32(b[end:]))
	if n > end {
		return nil, errors.New("footer is longer than the file")
	}
	return rowgroup.ReadFooter(b[end-n:end], int64(end-n))
}

// read decodes all rows of a file, one byte slice a row group.
func read(b []byte) (*rowgroup.File, [][]byte, error) {
	f, err := footer(b)
	if err != nil {
		return nil, nil, err
	}
	var all [][]byte
	for i, g := range f.Groups {
		d, err := rowgroup.NewDecoder(g.Frame, b[g.Offset:g.Offset+g.Frame.Length], 1<<30)
		if err != nil {
			return f, nil, err
		}
		var out []byte
		for {
			out, err = d.Next(out, rows.MaxRow)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return f, nil, fmt.Errorf("row group %d: %w", i, err)
			}
		}
		d.Close()
		all = append(all, out)
	}
	return f, all, nil
}

// values are the rows of a file.
func values(b []byte) (fields []*rows.Node, all []map[string]any, err error) {
	f, groups, err := read(b)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups {
		for len(g) > 0 {
			var row map[string]any
			if row, g, err = rowstest.Row(f.Fields, g); err != nil {
				return nil, nil, err
			}
			all = append(all, row)
		}
	}
	return f.Fields, all, nil
}
