package files_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/files"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/scantest"
)

func TestEachObjectIsASample(t *testing.T) {
	got, err := scantest.Scan(t.Context(), files.Files{}, format.Options{}, scantest.Objects{
		"d.x/a.seg.png": []byte("12345"), "b": []byte("6"), "c.json.gz": []byte("no gzip, and no matter"), "e/.hidden": []byte("7"),
	})
	if err != nil {
		t.Fatal(err)
	}
	one := func(key, ext string, n int64) []scantest.Sample {
		return []scantest.Sample{{Key: key, Length: n, Parts: []scantest.Part{{Ext: ext, Length: n}}}}
	}
	want := map[string][]scantest.Sample{
		"d.x/a.seg.png": one("d.x/a", "seg.png", 5), "b": one("b", "", 1), "c.json.gz": one("c", "json.gz", 22), "e/.hidden": one("e/.hidden", "", 1),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSurveyRefuses(t *testing.T) {
	for want, objects := range map[string]scantest.Objects{
		"1 objects without a byte, such as b.jpg": {"a.jpg": []byte("a"), "b.jpg": nil},
		"a.jpg and a.txt have one key":            {"a.jpg": []byte("a"), "a.txt": []byte("b")},
	} {
		if _, err := (files.Files{}).Survey(t.Context(), objects, format.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if d, err := (files.Files{}).Survey(t.Context(), scantest.Objects{}, format.Options{}); d != nil || err != nil {
		t.Errorf("nothing: got %v, %v", d, err)
	}
	if _, err := (files.Files{}).Framing([]byte("{}")); err == nil {
		t.Error("constants: got no error")
	}
}

// An object that is not as long as it was listed is refused: it has changed meanwhile.
func TestObjectOfAnotherLength(t *testing.T) {
	d, err := files.Files{}.Survey(t.Context(), scantest.Objects{"a.jpg": []byte("12345")}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{"1234": "shorter than the 5", "123456": "longer than the 5", "": "shorter than the 5"} {
		if err := d.Scan(context.Background(), 0, strings.NewReader(body), scantest.Nothing{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", body, err, want)
		}
	}
}
