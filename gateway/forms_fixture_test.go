package gateway_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// partOf is a part of a sample, written by a test or read by a client.
type partOf struct {
	ext     string
	content []byte
}

// sampleOf is a sample, written by a test or read by a client.
type sampleOf struct {
	key   string
	parts []partOf
}

// storedDataset is a dataset whose objects a test has written.
type storedDataset struct {
	objects map[string][]byte
	samples []sampleOf // in any order
	folders bool       // the samples are pictures in class folders
}

// formatsWritten returns small datasets in formats that the forms handle differently.
func formatsWritten(t testing.TB) map[string]storedDataset {
	t.Helper()
	return map[string]storedDataset{"tar": writeTars(t), "jsonl": writeLines(), "records": writeArray(), "files": writeFiles()}
}

// writeTars writes tars with names that need every encoding of tar names, samples that lack a part,
// an empty part, and a part of one block's length.
func writeTars(t testing.TB) storedDataset {
	t.Helper()
	w := storedDataset{objects: map[string][]byte{}}
	random := rand.New(rand.NewPCG(3, 4))
	for shard := range 2 {
		var b bytes.Buffer
		archive := tar.NewWriter(&b)
		for i := range 20 {
			s := sampleOf{key: fmt.Sprintf("d%d/s%03d", shard, i)}
			switch i {
			case 1:
				s.key = fmt.Sprintf("odd %d +&=%%?#\"\\;ü", shard)
			case 2:
				s.key = strings.Repeat("deep/", 20) + fmt.Sprintf("%d/s", shard)
			case 3:
				s.key = fmt.Sprintf("%d", shard) + strings.Repeat("long", 60)
			case 4:
				s.key = strings.Repeat("x", 60) + "/" + strings.Repeat("y", 40) + fmt.Sprint(shard)
			}
			add := func(ext string, n int) {
				content := make([]byte, n)
				for i := range content {
					content[i] = byte(random.Uint32())
				}
				s.parts = append(s.parts, partOf{ext, content})
			}
			add("jpg", []int{300, 512, 513, 1}[i%4])
			if i%3 != 0 {
				add("cls", i%4) // sometimes empty
			}
			if i%5 == 0 {
				s.parts = append(s.parts, partOf{"seg.json", []byte(`{"é":1}`)}, partOf{"a,b", []byte("c")})
			}
			if i == 7 {
				s.parts = []partOf{{"", []byte("no extension")}}
			}
			for _, p := range s.parts {
				name := s.key
				if p.ext != "" {
					name += "." + p.ext
				}
				if err := archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(p.content)), Mode: 0o600, ModTime: time.Unix(1, 0)}); err != nil {
					t.Fatal(err)
				}
				if _, err := archive.Write(p.content); err != nil {
					t.Fatal(err)
				}
			}
			w.samples = append(w.samples, s)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		w.objects[fmt.Sprintf("train-%d.tar", shard)] = b.Bytes()
	}
	return w
}

func writeLines() storedDataset {
	w := storedDataset{objects: map[string][]byte{}}
	for shard := range 2 {
		var b bytes.Buffer
		for i := range 20 {
			line := fmt.Sprintf(`{"text":%q}`, strings.Repeat("é", i))
			b.WriteString(line + "\n")
			w.samples = append(w.samples, sampleOf{fmt.Sprintf("part-%d/%09d", shard, i), []partOf{{"json", []byte(line)}}})
		}
		w.objects[fmt.Sprintf("part-%d.jsonl", shard)] = b.Bytes()
	}
	return w
}

func writeArray() storedDataset {
	b := framing.NPYHeader("<u2", 40, []uint64{3, 5})
	w := storedDataset{objects: map[string][]byte{}}
	for i := range 40 {
		var record []byte
		for j := range 15 {
			record = binary.LittleEndian.AppendUint16(record, uint16(15*i+j))
		}
		b = append(b, record...)
		w.samples = append(w.samples, sampleOf{fmt.Sprintf("x/%09d", i), []partOf{{"bin", record}}})
	}
	w.objects["x.npy"] = b
	return w
}

// writeFiles writes pictures of two types in twelve class folders, whose numbers have one or two
// digits.
func writeFiles() storedDataset {
	w := storedDataset{objects: map[string][]byte{}, folders: true}
	for i := range 40 {
		ext, key := []string{"png", "jpg"}[i%2], fmt.Sprintf("c%02d/photo%d", i%12, i)
		content := bytes.Repeat([]byte{byte(i)}, i+1)
		w.objects[key+"."+ext] = content
		w.samples = append(w.samples, sampleOf{key, []partOf{{ext, content}, {"cls", []byte(strconv.Itoa(i % 12))}}})
	}
	return w
}

// byKey returns the samples by key.
func (w storedDataset) byKey() map[string]sampleOf {
	all := map[string]sampleOf{}
	for _, s := range w.samples {
		all[s.key] = s
	}
	return all
}

// serveObjects serves objects as dataset photos, with the real data path.
func serveObjects(t testing.TB, objects map[string][]byte, edit func(*gateway.Config)) *rig {
	t.Helper()
	return serveChunks(t, objects, 4<<10, edit)
}

// serveChunks is like serveObjects, with chunks of about the given size.
func serveChunks(t testing.TB, objects map[string][]byte, chunkSize int64, edit func(*gateway.Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: memstore.New(), log: &lockedBuffer{}, source: &source{}}
	for key, b := range objects {
		if _, err := r.store.Put(t.Context(), "data/"+key, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	opt := build.Options{ChunkSize: chunkSize, Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 4, Seed: 7, BatchSize: 16, Tail: "short"}}
	if _, err := build.Run(t.Context(), r.store, "data/", opt); err != nil {
		t.Fatal(err)
	}
	memory := budget.New(64<<20, 20*time.Millisecond)
	path := datapath.New(datapath.Config{Budget: memory, NoPrefetch: true})
	t.Cleanup(path.Close)
	var err error
	r.index, err = chunkindex.Open(t.Context(), r.store, "data/", chunkindex.OpenOptions{CacheDir: t.TempDir(), Tables: path.Tables()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.index.Close() })
	r.opened = path.Open(r.index, r.store, "data/")
	cfg := gateway.Config{
		Datasets: []gateway.Dataset{{Name: "photos", Index: r.index, Source: r.opened}},
		Budget:   memory, Version: "test", Log: zerolog.New(r.log), Allow: []auth.Right{auth.Read, auth.Report, auth.Warm, auth.Admin},
	}
	if edit != nil {
		edit(&cfg)
	}
	if r.gateway, err = gateway.New(cfg); err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(r.gateway.Handler())
	t.Cleanup(r.server.Close)
	return r
}

// keys returns the keys of a batch in order.
func (r *rig) keys(path string) []string {
	r.t.Helper()
	a := r.do("GET", strings.Replace(path, "?", "/manifest?", 1))
	var m struct {
		Samples []struct {
			Key string `json:"key"`
			Raw string `json:"key_base64"`
		}
	}
	if err := json.Unmarshal(a.body, &m); err != nil || a.StatusCode != http.StatusOK {
		r.t.Fatalf("manifest: got status %d and %v", a.StatusCode, err)
	}
	var keys []string
	for _, s := range m.Samples {
		if raw, err := base64.StdEncoding.DecodeString(s.Raw); err == nil && len(raw) > 0 {
			s.Key = string(raw)
		}
		keys = append(keys, s.Key)
	}
	return keys
}
