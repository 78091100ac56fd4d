package rows_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// TestChoose checks that names are paths of columns or of structs, and that the chosen columns have
// the order of the schema.
func TestChoose(t *testing.T) {
	all := []bool{true, true, true, true, true, true, true, true}
	for names, want := range map[string]struct {
		left string
		kept []bool // in the order id, image, image.bytes, image.path, embedding, its element, tags, its element
	}{
		"":                           {`id image<bytes path> embedding tags`, all},
		"tags,id":                    {`id tags`, []bool{true, false, false, false, false, false, true, true}},
		"image":                      {`image<bytes path>`, []bool{false, true, true, true, false, false, false, false}},
		"image.path":                 {`image<path>`, []bool{false, true, false, true, false, false, false, false}},
		"image,image.path,id":        {`id image<bytes path>`, []bool{true, true, true, true, false, false, false, false}},
		"tags,embedding,image,id,id": {`id image<bytes path> embedding tags`, all},
	} {
		var list []string
		if names != "" {
			list = strings.Split(names, ",")
		}
		fields := example()
		c, err := rows.Choose(fields, list)
		if err != nil {
			t.Errorf("%q: %v", names, err)
			continue
		}
		if got := shape(c.Fields); got != want.left || c.All() != (len(want.kept) == len(all) && !strings.Contains(fmt.Sprint(want.kept), "false")) {
			t.Errorf("%q: got %s, all %v, want %s", names, got, c.All(), want.left)
		}
		if d := cmp.Diff(want.kept, c.Kept); d != "" {
			t.Errorf("%q (-want +got):\n%s", names, d)
		}
		if got := shape(fields); got != `id image<bytes path> embedding tags` {
			t.Errorf("%q: the schema itself is %s now", names, got)
		}
	}
	for _, name := range []string{"captions", "image.", ".id", "image.bytes.x", "tags.element", "Id"} {
		if _, err := rows.Choose(example(), []string{"id", name}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q: the columns are id, image.bytes, image.path, embedding, tags", name)) {
			t.Errorf("%s: got %v, want the name and the columns", name, err)
		}
	}
	var many []*rows.Node
	for i := range 5000 {
		many = append(many, text(fmt.Sprintf("c%d", i)))
	}
	if _, err := rows.Choose(many, []string{"x"}); err == nil || !strings.Contains(err.Error(), "c29 and 4970 more") || len(err.Error()) > 500 {
		t.Errorf("got %.1000v, want some of the columns", err)
	}
}

// shape writes the names in a schema.
func shape(nodes []*rows.Node) string {
	var all []string
	for _, n := range nodes {
		name := n.Name
		if n.Kind == rows.Struct {
			name += "<" + shape(n.Children) + ">"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// TestJoin checks that joined ranges contain each byte once, and that each byte has a position in
// them.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var ranges []rows.Range
		held := map[int64]bool{}
		for range rapid.IntRange(0, 6).Draw(r, "ranges") {
			one := rows.Range{Offset: rapid.Int64Range(0, 30).Draw(r, "offset"), Length: rapid.Int64Range(0, 8).Draw(r, "length")}
			ranges = append(ranges, one)
			for b := one.Offset; b < one.End(); b++ {
				held[b] = true
			}
		}
		joined, place := rows.Join(ranges), int64(0)
		for i, one := range joined {
			if i > 0 && one.Offset <= joined[i-1].End() || one.Length == 0 {
				r.Fatalf("got %v: they are not apart, or empty", joined)
			}
			for b := one.Offset; b < one.End(); b++ {
				if !held[b] {
					r.Fatalf("got %v, with byte %d", joined, b)
				}
				if got := rows.Place(joined, b); got != place {
					r.Fatalf("byte %d of %v: got place %d, want %d", b, joined, got, place)
				}
				place++
			}
		}
		if place != int64(len(held)) {
			r.Fatalf("got %v of %d bytes, want %d", joined, place, len(held))
		}
		for b := range int64(40) {
			if got := rows.Place(joined, b); got < 0 || got > place {
				r.Fatalf("byte %d, which is in none of %v: got place %d", b, joined, got)
			}
		}
	})
}
