package harness

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Files writes count files of up to size bytes below a new directory, and returns it with their
// content by path. Every third sample has a second member. The content is the same in every run.
func Files(t testing.TB, count, size int) (string, map[string]string) {
	t.Helper()
	root := t.TempDir()
	random := rand.NewChaCha8([32]byte{1: byte(count), 2: byte(size)})
	lengths := rand.New(random)
	content := make(map[string]string, count)
	write := func(name string, data []byte) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		content[name] = string(data)
	}
	for i := range count {
		data := make([]byte, size/2+lengths.IntN(size/2+1))
		_, _ = random.Read(data)
		name := fmt.Sprintf("class-%02d/sample-%06d", i%7, i)
		write(name+".bin", data)
		if i%3 == 0 {
			write(name+".cls", fmt.Appendf(nil, "%d\n", i%7))
		}
	}
	return root, content
}

// Pack packs the directory files into a dataset of store.
func Pack(t testing.TB, store *Store, files, dataset string, args ...string) {
	t.Helper()
	MustRun(t, store, append([]string{"pack", files, store.Dataset(dataset)}, args...)...)
	if l := Recorded(t); l != nil {
		p := Packed(t, store, dataset)
		l.Expect(p.Generation, p)
	}
}

// Sample is one entry of a batch's manifest.
type Sample struct {
	Position uint64          `json:"position"`
	Key      string          `json:"key"`
	Shard    string          `json:"shard"`
	Offset   int64           `json:"offset"`
	Length   int64           `json:"length"`
	CRC32C   json.RawMessage `json:"crc32c"`
}

// Manifest returns the samples of the batch at path, which is a batch's path without a query.
func (g *Gateway) Manifest(t testing.TB, path, query string) []Sample {
	t.Helper()
	r := g.MustGet(t, path+"/manifest"+query)
	var m struct {
		Samples []Sample `json:"samples"`
	}
	if err := json.Unmarshal(r.Body, &m); err != nil {
		t.Fatalf("manifest %s: %v", path, err)
	}
	return m.Samples
}
