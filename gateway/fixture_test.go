package gateway_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source reads each sample with a separate range request to the store. It is the simplest source of
// batches.
type source struct {
	index  *chunkindex.Index
	store  objstore.RangeReader
	before func(ctx context.Context) error // called before every read, to inject errors
	reads  atomic.Int64
	asked  atomic.Int64 // requested samples
	hot    atomic.Int64 // requested samples marked as hot
	open   atomic.Int64 // bodies not closed
	moved  atomic.Int64 // segments that a body copied to reduce its memory; the originals are overwritten
	warm   func(at shuffle.Cursor) (batch.Warmed, error)
}

func (s *source) Warm(_ context.Context, at shuffle.Cursor) (batch.Warmed, error) {
	return s.warm(at)
}

func (s *source) Read(ctx context.Context, _ shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	s.reads.Add(1)
	if s.before != nil {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
	}
	n := 0
	for _, c := range chunks {
		n += len(c.Ranges)
	}
	s.asked.Add(int64(n))
	segments := make([][]byte, n)
	for _, c := range chunks {
		at := s.index.Extents(c.Chunk)[0]
		shard := s.index.Shard(at.Shard)
		ref := objstore.Ref{Key: shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
		for _, r := range c.Ranges {
			if r.Hot {
				s.hot.Add(1)
			}
			segments[r.Seq] = make([]byte, r.Length)
			offset := at.Offset + int64(r.Offset)
			err := s.store.ReadRange(ctx, ref, offset, segments[r.Seq])
			if err == nil && crcOf(segments[r.Seq]) != r.CRC32C {
				err = chunkindex.ErrCorrupt
			}
			if err != nil {
				return nil, &chunkindex.RangeError{Shard: at.Shard, Key: shard.Key, Offset: offset, Length: int64(r.Length), Err: err}
			}
		}
	}
	s.open.Add(1)
	tiers := []batch.TierTime{{Tier: "memory", Wait: time.Microsecond}, {Tier: "peer", Bytes: 2, Wait: 2 * time.Millisecond}, {Tier: "store", Bytes: 1, Wait: time.Millisecond}}
	return batch.NewBody(segments, tiers, func() { s.open.Add(-1) }).OnSettle(func() {
		for i, old := range segments {
			if old != nil {
				segments[i] = bytes.Clone(old)
				clear(old)
				s.moved.Add(1)
			}
		}
	}), nil
}

// rig is a gateway over a small in-memory dataset.
type rig struct {
	t       testing.TB
	store   *memstore.Store
	index   *chunkindex.Index
	source  *source
	opened  gateway.Source // of serveObjects
	gateway *gateway.Gateway
	server  *httptest.Server
	log     *lockedBuffer
	samples map[string][]byte // stored bytes of each sample, by key
	order   []string          // keys in stored order
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// oddSample is the number of a sample whose key needs every escape.
const oddSample = 3

// newRig serves samples of about meanSize bytes in three shards.
func newRig(t testing.TB, samples, meanSize int, edit func(*gateway.Config)) *rig {
	t.Helper()
	leaks.Check(t)
	ctx := context.Background()
	r := &rig{t: t, store: memstore.New(), log: &lockedBuffer{}, samples: map[string][]byte{}}
	const shards = 3
	random := rand.New(rand.NewPCG(1, 2))
	for s := range shards {
		var shard bytes.Buffer
		for i := s * samples / shards; i < (s+1)*samples/shards; i++ {
			key := fmt.Sprintf("d%d/s%05d", s, i)
			if i == oddSample {
				key += " +&=%?#\";\xff" // all characters with a special meaning in a URL
			}
			stored := member(t, key+".bin", random, meanSize/2+random.IntN(meanSize+1))
			stored = append(stored, member(t, key+".cls", random, 3)...)
			shard.Write(stored)
			r.samples[key] = stored
			r.order = append(r.order, key)
		}
		shard.Write(make([]byte, 1024))
		name := fmt.Sprintf("data/train-%d.tar", s)
		if _, err := r.store.Put(ctx, name, bytes.NewReader(shard.Bytes()), int64(shard.Len()), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	opt := build.Options{ChunkSize: int64(8 * meanSize), Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 4, Seed: 7, BatchSize: 16, Tail: "short"}}
	if _, err := build.Run(ctx, r.store, "data/", opt); err != nil {
		t.Fatal(err)
	}
	index, err := chunkindex.Open(ctx, r.store, "data/", chunkindex.OpenOptions{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	r.index = index
	r.source = &source{index: index, store: prefixStore{r.store, "data/"}}
	cfg := gateway.Config{
		Datasets: []gateway.Dataset{{Name: "photos", Index: index, Source: r.source, Importance: r.losses(importance.Config{Reader: r.store, Writer: r.store}), Selection: r.selections()}},
		Budget:   budget.New(64<<20, time.Second), Version: "test", Log: zerolog.New(r.log), Allow: []auth.Right{auth.Read, auth.Report, auth.Warm, auth.Admin},
		Stats: func() []gateway.Stat {
			return []gateway.Stat{{Name: "cache_hits_total", Help: "Hits.", Value: 42}}
		},
		Readers: func() []stats.Reader {
			job := stats.Job{Dataset: "photos", Params: shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 1 << 63}, BatchSize: 16, WorldSize: 2}
			return []stats.Reader{{Job: job, Batch: 3, SamplesPerSecond: 12.5}}
		},
	}
	if edit != nil {
		edit(&cfg)
	}
	if r.gateway, err = gateway.New(cfg); err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(r.gateway.Handler())
	t.Cleanup(func() {
		r.server.Close()
		if err := r.gateway.Close(); err != nil {
			t.Error(err)
		}
		if n := r.source.open.Load(); n != 0 {
			t.Errorf("got %d bodies left open, want 0", n)
		}
		checkPhases(t, r.log.String())
	})
	return r
}

// checkPhases checks that the phases of each request add up to its total time.
func checkPhases(t testing.TB, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil || fields["message"] != "request" {
			continue
		}
		took, _ := fields["took_ms"].(float64)
		sum := 0.0
		for _, phase := range []string{"edge", "decode", "wait", "plan", "locate", "read", "send"} {
			ms, _ := fields[phase+"_ms"].(float64)
			sum += ms
		}
		if math.Abs(sum-took) > 1 {
			t.Errorf("the phases are %.3f ms of %.3f together: %s", sum, took, line)
		}
	}
}

// losses returns the dataset's log of losses.
func (r *rig) losses(cfg importance.Config) *importance.Log {
	r.t.Helper()
	cfg.Prefix, cfg.CacheDir = "data/", r.t.TempDir()
	l, err := importance.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	return l
}

// selections returns the dataset's store of subsets and quarantines.
func (r *rig) selections() *selection.Store {
	r.t.Helper()
	s, err := selection.New(selection.Config{Reader: r.store, Writer: r.store, Prefix: "data/", Dir: r.t.TempDir()})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// prefixStore adds a prefix to the keys of a store.
type prefixStore struct {
	objstore.Store
	prefix string
}

func (p prefixStore) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) error {
	ref.Key = p.prefix + ref.Key
	return p.Store.ReadRange(ctx, ref, offset, dst...)
}

// member returns a tar member with random content in its stored form: header, content, padding.
func member(t testing.TB, name string, random *rand.Rand, size int) []byte {
	t.Helper()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	return rawMember(t, name, content)
}

func rawMember(tb testing.TB, name string, content []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatGNU}); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		tb.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body []byte
}

// do sends one request; headers are "Name: value".
func (r *rig) do(method, path string, headers ...string) answer {
	r.t.Helper()
	a, err := r.try(method, path, nil, headers...)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// post sends a POST request, without a body if body is empty.
func (r *rig) post(path, body string) answer {
	r.t.Helper()
	a, err := r.try("POST", path, strings.NewReader(body))
	if err != nil {
		r.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

func (r *rig) try(method, path string, body io.Reader, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, body)
	if err != nil {
		return answer{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := r.server.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return answer{res, got}, err
}
