package files_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func TestScan_EachObjectIsASample(t *testing.T) {
	got, err := scantest.Scan(t.Context(), files.Format(), format.Options{Named: true}, scantest.Objects{
		"d.x/a.seg.png": []byte("12345"), "b": []byte("6"), "c.json.gz": []byte("no gzip, and no matter"), "e/.hidden": []byte("7"),
		"f/frame.0001.png": []byte("1"), "f/frame.0002.png": []byte("2"), "f/frame_0003.png": []byte("3"), "g/1.jpg": []byte("j"), "g/1.png": []byte("p"), "g/1.x.png": []byte("x"),
		"h/V.NII.GZ": []byte("v"), "_SUCCESS": nil, "README.md": []byte("a sample where it is asked for"),
	})
	if err != nil {
		t.Fatal(err)
	}
	one := func(key, ext string, n int64) []scantest.Sample {
		return []scantest.Sample{{Key: key, Length: n, Parts: []scantest.Part{{Ext: ext, Length: n}}}}
	}
	want := map[string][]scantest.Sample{
		"f/frame.0001.png": one("f/frame_0001", "png", 1), "f/frame.0002.png": one("f/frame_0002", "png", 1), "f/frame_0003.png": one("f/frame_0003", "png", 1),
		"g/1.jpg": one("g/1_jpg", "jpg", 1), "g/1.png": one("g/1_png", "png", 1), "g/1.x.png": one("g/1_x", "png", 1),
		"h/V.NII.GZ": one("h/V", "NII.GZ", 1), "README.md": one("README", "md", 30),
		"d.x/a.seg.png": one("d.x/a_seg", "png", 5), "b": one("b", "", 1), "c.json.gz": one("c", "json.gz", 22), "e/.hidden": one("e/.hidden", "", 1),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSurveyRefuses(t *testing.T) {
	for want, objects := range map[string]scantest.Objects{
		"object b.jpg has no bytes: --match '!b.jpg' leaves it out": {"a.jpg": []byte("a"), "b.jpg": nil},
		"2 objects have no bytes, such as c.jpg":                    {"a.jpg": []byte("a"), "b.jpg": nil, "c.jpg": nil},
		"a.jpg (image) and a.txt (text) are of different kinds":     {"a.jpg": []byte("a"), "a.txt": []byte("b")},
		"object b.dat: its name is not that":                        {"a.jpg": []byte("a"), "b.dat": []byte("b")},
		"objects c/a.b.jpg and c/a_b.jpg would have the same key, c/a_b_jpg, because a dot becomes an underscore: rename one of the objects, or exclude it with --match '!c/a_b.jpg'": {
			"c/a.b.jpg": []byte("a"), "c/a0.jpg": []byte("b"), "c/a_b.jpg": []byte("c"),
		},
		"objects a.jpg and a_jpg.jpg would have the same key, a_jpg,": {"a.jpg": []byte("a"), "a.png": []byte("b"), "a_jpg.jpg": []byte("c")},
	} {
		if _, err := files.Format().Survey(t.Context(), objects, format.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if d, err := files.Format().Survey(t.Context(), scantest.Objects{}, format.Options{}); d != nil || err != nil {
		t.Errorf("nothing: got %v, %v", d, err)
	}
	if _, err := framing.Read("files", []byte("{}")); err == nil {
		t.Error("constants: got no error")
	}
}

// TestSurvey_KeysAreUnique: a name whose dots become underscores may equal another name anywhere in
// the listing.
func TestSurvey_KeysAreUnique(t *testing.T) {
	got, err := scantest.Scan(t.Context(), files.Format(), format.Options{}, scantest.Objects{"a.b.jpg": []byte("1"), "a0.jpg": []byte("2"), "a_b.png": []byte("3")})
	if err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]string{"a.b.jpg": "a_b_jpg", "a0.jpg": "a0", "a_b.png": "a_b_png"} {
		if len(got[object]) != 1 || got[object][0].Key != want {
			t.Errorf("%s: got %+v, want the key %s", object, got[object], want)
		}
	}
}

// TestScan_RejectsChangedLength checks that an object whose length differs from the listing is
// rejected, because it has changed.
func TestScan_RejectsChangedLength(t *testing.T) {
	d, err := files.Format().Survey(t.Context(), scantest.Objects{"a.jpg": []byte("12345")}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{"1234": "bytes are missing", "123456": "longer than its size in the listing, 5", "": "bytes are missing"} {
		if err := d.Scan(context.Background(), 0, strings.NewReader(body), scantest.Nothing{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", body, err, want)
		}
	}
}
