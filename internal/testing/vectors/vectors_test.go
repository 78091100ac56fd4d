package vectors

import (
	"os"
	"path/filepath"
	"testing"
)

type pair struct {
	A int   `json:"a"`
	B []int `json:"b"`
}

type file struct {
	Pairs []pair   `json:"pairs"`
	Words []string `json:"words,omitempty"`
}

func TestHold_WritesOneVectorALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors.json")
	computed := file{Pairs: []pair{{1, []int{2, 3}}, {4, nil}}, Words: []string{"x"}}
	if held := Hold(t, path, true, computed); len(held.Pairs) != 2 {
		t.Errorf("got %d pairs, want 2", len(held.Pairs))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"pairs\": [\n{\"a\":1,\"b\":[2,3]},\n{\"a\":4,\"b\":null}\n],\n\"words\": [\n\"x\"\n]}\n"
	if string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}
