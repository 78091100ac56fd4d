package rowgroup_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/rowstest"
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
	return rowgroup.ReadFooter(b[end-n:end], int64(end-n), nil)
}

// read decodes all rows of a file. It returns one byte slice per row group.
func read(b []byte) (*rowgroup.File, [][]byte, error) {
	f, err := footer(b)
	if err != nil {
		return nil, nil, err
	}
	var all [][]byte
	for i, g := range f.Groups {
		d, err := rowgroup.NewDecoder(g.Frame, b[g.Offset:g.Offset+g.Frame.Length:g.Offset+g.Frame.Length], 1<<30)
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

// values returns the rows of a file.
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

// golden returns the files written by pyarrow, by name.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(names) < 20 {
		t.Fatalf("got %d files, %v, want those that make.py wrote", len(names), err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".parquet")] = b
	}
	return all
}

// asJSON converts a value that rowstest returns to JSON, like physical.py does.
func asJSON(v any) any {
	switch v := v.(type) {
	case []byte:
		return hex.EncodeToString(v)
	case map[string]any:
		m := map[string]any{}
		for k, x := range v {
			m[k] = asJSON(x)
		}
		return m
	case []any:
		l := []any{}
		for _, x := range v {
			l = append(l, asJSON(x))
		}
		return l
	}
	return v
}
