package rowgroup_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/rowstest"
)

// chosen reads the footer of a whole file and selects some columns.
func chosen(t testing.TB, b []byte, names ...string) (*rowgroup.File, error) {
	t.Helper()
	end := len(b) - 8
	n := int(binary.LittleEndian.Uint32(b[end:]))
	return rowgroup.ReadFooter(b[end-n:end], int64(end-n), names)
}

// decoded decodes all row groups as one chunk. It reads only the pieces that contain the selected
// columns.
func decoded(t testing.TB, file []byte, f *rowgroup.File, length int) []byte {
	t.Helper()
	var params, stored []byte
	for _, g := range f.Groups {
		p := g.Frame.Params()
		params = append(binary.AppendUvarint(params, uint64(len(p))), p...)
		for _, r := range g.Read() {
			stored = append(stored, file[r.Offset:r.End()]...)
		}
	}
	dst := make([]byte, length)
	if err := rowgroup.Decode(params, bytes.Clone(stored), dst, nil); err != nil {
		t.Fatal(err)
	}
	return dst
}

// narrowed returns a row reduced to the columns in fields.
func narrowed(row map[string]any, fields []*rows.Node) map[string]any {
	left := map[string]any{}
	for _, f := range fields {
		left[f.Name] = row[f.Name]
		if inside, ok := row[f.Name].(map[string]any); ok && f.Kind == rows.Struct {
			left[f.Name] = narrowed(inside, f.Children)
		}
	}
	return left
}

// TestReadFooter_ChosenColumns checks that selected columns have the same values as in complete
// rows, and that they are decoded from their own bytes only. It selects each single column, and
// every second column.
func TestReadFooter_ChosenColumns(t *testing.T) {
	for name, file := range golden(t) {
		all, want, err := values(file)
		if err != nil {
			t.Fatal(err)
		}
		l, err := rows.NewLayout(all)
		if err != nil {
			t.Fatal(err)
		}
		var choices [][]string
		var second []string
		for i, s := range l.Steps {
			choices = append(choices, []string{s.Path})
			if i%2 == 0 && s.Node.Kind != rows.Struct {
				second = append(second, s.Path)
			}
		}
		for _, names := range append(choices, second) {
			f, err := chosen(t, file, names...)
			if err != nil {
				t.Fatalf("%s, %v: %v", name, names, err)
			}
			checkChosen(t, name+" "+strings.Join(names, ","), file, f, want)
		}
	}
}

// checkChosen compares the rows of the selected columns with the complete rows.
func checkChosen(t *testing.T, name string, file []byte, f *rowgroup.File, want []map[string]any) {
	t.Helper()
	var each [][]byte
	for _, g := range f.Groups {
		stored := []byte{}
		for _, r := range g.Read() {
			stored = append(stored, file[r.Offset:r.End()]...)
		}
		d, err := rowgroup.NewDecoder(g.Frame, stored, 1<<30)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b []byte
		for range g.Frame.Rows {
			if b, err = d.Next(b, rows.MaxRow); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		d.Close()
		each = append(each, b)
	}
	got := bytes.Join(each, nil)
	if again := decoded(t, file, f, len(got)); !bytes.Equal(again, got) {
		t.Errorf("%s: other rows from the parameters", name)
	}
	for i, row := range want {
		var mine map[string]any
		var err error
		if mine, got, err = rowstest.Row(f.Fields, got); err != nil {
			t.Fatalf("%s, row %d: %v", name, i, err)
		}
		if d := cmp.Diff(narrowed(row, f.Fields), mine); d != "" {
			t.Fatalf("%s, row %d (-want +got):\n%s", name, i, d)
		}
	}
	if len(got) > 0 {
		t.Errorf("%s: %d bytes are left", name, len(got))
	}
}

// TestReadFooter_Pieces checks that adjacent selected column chunks form one piece, and that no
// byte of other columns is read.
func TestReadFooter_Pieces(t *testing.T) {
	file := golden(t)["checksums"] // columns: int32, int64, float, double, fixed, text, sorted, ok
	pieces := func(names ...string) (all [][]rows.Range) {
		f, err := chosen(t, file, names...)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range f.Groups {
			all = append(all, g.Pieces)
		}
		return all
	}
	one, other, both := pieces("int32"), pieces("int64"), pieces("int64", "int32")
	apart := pieces("int32", "float")
	for i := range one {
		a, b := one[i][0], other[i][0]
		if len(one[i]) != 1 || len(both[i]) != 1 || a.End() != b.Offset || both[i][0] != (rows.Range{Offset: a.Offset, Length: a.Length + b.Length}) {
			t.Errorf("row group %d: got %v, %v, and both %v, want one range of the two", i, one[i], other[i], both[i])
		}
		if len(apart[i]) != 2 || apart[i][0] != a || apart[i][1].Offset != b.End() {
			t.Errorf("row group %d: got %v, want two ranges with a gap of %d bytes", i, apart[i], b.Length)
		}
	}
	whole, err := footer(file)
	if err != nil {
		t.Fatal(err)
	}
	named, err := chosen(t, file, "int32", "int64", "float", "double", "fixed", "text", "sorted", "ok")
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range named.Groups {
		if g.Pieces != nil || !bytes.Equal(g.Frame.Params(), whole.Groups[i].Frame.Params()) {
			t.Errorf("row group %d of all columns by their names: got %v, want it as without names", i, g.Pieces)
		}
	}
}
