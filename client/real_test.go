package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// storedDataset is an in-memory dataset that is read sample by sample.
type storedDataset struct {
	index *chunkindex.Index
	store *memstore.Store
}

func (s storedDataset) Read(ctx context.Context, _ shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	var segments [][]byte
	for _, c := range chunks {
		segments = append(segments, make([][]byte, len(c.Ranges))...)
	}
	for _, c := range chunks {
		for _, r := range c.Ranges {
			segments[r.Seq] = make([]byte, r.Length)
			dst, off := segments[r.Seq], int64(r.Offset)
			for _, at := range s.index.Extents(c.Chunk) {
				n := min(at.Length-off, int64(len(dst)))
				if off -= at.Length; n <= 0 {
					continue
				}
				shard := s.index.Shard(at.Shard)
				ref := objstore.Ref{Key: "data/" + shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
				if err := s.store.ReadRange(ctx, ref, at.Offset+off+at.Length, dst[:n]); err != nil {
					return nil, err
				}
				dst, off = dst[n:], 0
			}
		}
	}
	return batch.NewBody(segments, nil, nil), nil
}

func (s storedDataset) Warm(context.Context, shuffle.Cursor) (batch.Warmed, error) {
	return batch.Warmed{}, errors.New("not in this test")
}

// realSamples is the number of samples of the real gateways' dataset.
const realSamples = 60

func newStored(t *testing.T) storedDataset {
	t.Helper()
	leaks.Check(t)
	ctx, random := t.Context(), rand.New(rand.NewPCG(5, 6))
	s := storedDataset{store: memstore.New()}
	var shard bytes.Buffer
	w := tar.NewWriter(&shard)
	for i := range realSamples {
		content := make([]byte, 3000+random.IntN(3000))
		for j := range content {
			content[j] = byte(random.Uint32())
		}
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("s%05d.bin", i), Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Put(ctx, "data/0.tar", bytes.NewReader(shard.Bytes()), int64(shard.Len()), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	return s.indexed(t)
}

// indexed indexes the current objects of the dataset.
func (s storedDataset) indexed(t *testing.T) storedDataset {
	t.Helper()
	defaults := chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 8, Seed: 7, BatchSize: 12, Tail: "short"}
	if _, err := build.Run(t.Context(), s.store, "data/", build.Options{ChunkSize: 32 << 10, Defaults: defaults}); err != nil {
		t.Fatal(err)
	}
	index, err := chunkindex.Open(t.Context(), s.store, "data/", chunkindex.OpenOptions{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	s.index = index
	return s
}

// real is a gateway behind its own server, which counts the sent bytes of batches and truncates
// bodies on demand.
type real struct {
	*gateway.Gateway
	url string

	mu       sync.Mutex // guards the fields below
	requests int        // number of requests for batches
	ranges   []string   // Range of each of these requests
	bytes    int        // bytes of their bodies, except error documents
	cut      []int      // number of bytes of the next bodies before the connection closes; negative: all
}

func newReal(t *testing.T, s storedDataset, cfg gateway.Config) *real {
	t.Helper()
	cfg.Datasets = []gateway.Dataset{{Name: "photos", Index: s.index, Source: s}}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &real{Gateway: g}
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	r.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (g *real) serve(w http.ResponseWriter, r *http.Request) {
	var epoch, number int
	if n, _ := fmt.Sscanf(r.URL.Path, "/epoch/%d/batch/%d", &epoch, &number); n != 2 {
		g.Handler().ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	g.Handler().ServeHTTP(rec, r)
	body := rec.Body.Bytes()
	g.mu.Lock()
	g.requests++
	g.ranges = append(g.ranges, r.Header.Get("Range"))
	cut := -1
	if len(g.cut) > 0 {
		cut, g.cut = g.cut[0], g.cut[1:]
	}
	broken := cut >= 0 && cut < len(body)
	if broken {
		body = body[:cut]
	}
	if rec.Code < 300 {
		g.bytes += len(body)
	}
	g.mu.Unlock()
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
	if broken {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// sent returns the requests and sent bytes since the last call.
func (g *real) sent() (requests, bytes int, ranges []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	requests, bytes, ranges = g.requests, g.bytes, g.ranges
	g.requests, g.bytes, g.ranges = 0, 0, nil
	return requests, bytes, ranges
}

// inOrder is a Config.Home that uses the gateways in the order of the list, regardless of latency.
func inOrder(_, _ uint64, _ int) int { return 0 }

func TestNoBatchIsReadTwice(t *testing.T) {
	s := newStored(t)
	var gateways []*real
	cfg := client.Config{}
	for range 3 {
		g := newReal(t, s, gateway.Config{})
		gateways, cfg.Gateways = append(gateways, g), append(cfg.Gateways, g.url)
	}
	for _, home := range []func(uint64, uint64, int) int{nil, client.HomeByRank} {
		cfg.Home = home
		c := newClient(t, cfg)
		came := client.NewDeliveries(realSamples, false)
		bodies, batches := 0, 0
		for rank := range uint64(6) {
			for b, err := range c.Batches(t.Context(), client.Options{Rank: rank, WorldSize: 6, Share: "locality", Manifest: true}) {
				if err != nil {
					t.Fatal(err)
				}
				came.Add(b)
				batches++
				bodies += len(b.Bytes())
			}
		}
		if err := came.Check(); err != nil {
			t.Error(err)
		}
		var asked []int
		sum, requests := 0, 0
		for _, g := range gateways {
			n, bytes, _ := g.sent()
			asked, sum, requests = append(asked, n), sum+bytes, requests+n
		}
		if requests != batches || sum != bodies {
			t.Errorf("got %d requests and %d bytes, want %d and %d", requests, sum, batches, bodies)
		}
		if want := batches / 3; home != nil && (asked[0] != want || asked[1] != want || asked[2] != want) {
			t.Errorf("got requests %v, want %d each", asked, want)
		}
	}
}

// TestBrokenBodyGoesOnElsewhere: the gateways send every byte of a batch once, however often its
// body is truncated.
func TestBrokenBodyGoesOnElsewhere(t *testing.T) {
	s := newStored(t)
	a, b := newReal(t, s, gateway.Config{}), newReal(t, s, gateway.Config{})
	for _, opt := range []client.Options{{}, {Rank: 1, WorldSize: 2, Share: "locality"}, {Generation: s.index.Generation()}} {
		c := newClient(t, client.Config{Gateways: []string{a.url, b.url}, Home: inOrder})
		whole, err := c.Batch(t.Context(), opt, 2)
		if err != nil {
			t.Fatal(err)
		}
		a.sent()
		n := len(whole.Bytes())
		a.cut, b.cut = []int{10000}, []int{n - 10000 - 1}
		got, err := c.Batch(t.Context(), opt, 2)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), whole.Bytes()) || got.Samples() != whole.Samples() {
			t.Errorf("got %d bytes that differ from the %d wanted", len(got.Bytes()), n)
		}
		asked, sent, ranges := a.sent()
		asked2, sent2, ranges2 := b.sent()
		if asked != 2 || asked2 != 1 || sent+sent2 != n {
			t.Errorf("got %d and %d requests with %d and %d bytes, want 2 and 1 with %d together", asked, asked2, sent, sent2, n)
		}
		want := []string{"", "bytes=" + strconv.Itoa(n-1) + "-", "bytes=10000-"}
		for i, r := range append(ranges, ranges2...) {
			if r != want[i] {
				t.Errorf("got range %q, want %q", r, want[i])
			}
		}
	}
}

// TestRestOfOtherBytesIsNotTaken: the client refuses another gateway's bytes if their ETag, length
// or checksum differs, and reads the whole batch again.
func TestBatch_HasTotalsAndMicroBatches(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{newReal(t, newStored(t), gateway.Config{}).url}})
	seen := client.NewDeliveries(realSamples, false)
	for number := range uint64(4) {
		var samples, cost, want uint64
		for rank := range uint64(3) {
			opt := client.Options{BatchSize: 16, Tail: "pad", Balance: "bytes", Micro: 3, Rank: rank, WorldSize: 3, Manifest: true}
			b, err := c.Batch(t.Context(), opt, number)
			if err != nil {
				t.Fatal(err)
			}
			seen.Add(b)
			samples, want = samples+uint64(b.Samples()), b.BatchCost
			for i := range b.Samples() {
				cost += uint64(b.Describe(i).Length)
			}
			if b.BatchSamples != 16 || len(b.Micro) != 3 || b.Micro[0]+b.Micro[1]+b.Micro[2] != uint64(b.Samples()) {
				t.Errorf("batch %d, rank %d: got %d samples of %d in %d", number, rank, b.Samples(), b.BatchSamples, b.Micro)
			}
		}
		if samples != 16 || cost != want {
			t.Errorf("batch %d: got %d samples that cost %d, want 16 and %d", number, samples, cost, want)
		}
	}
	if err := seen.Check(); err != nil {
		t.Error(err)
	}
}

func TestRestOfOtherBytesIsNotTaken(t *testing.T) {
	s := newStored(t)
	a, b := newReal(t, s, gateway.Config{}), newReal(t, s, gateway.Config{})
	for name, change := range map[string]func(h http.Header, status int, body []byte) (int, []byte){
		"another ETag": func(h http.Header, status int, body []byte) (int, []byte) {
			h.Set("ETag", `"other"`)
			return status, body
		},
		"another part": func(h http.Header, status int, body []byte) (int, []byte) { return status, body[1:] },
		"wrong bytes":  func(h http.Header, status int, body []byte) (int, []byte) { body[5] ^= 1; return status, body },
		"another checksum": func(h http.Header, status int, body []byte) (int, []byte) {
			h.Set("Millrace-Crc32c", "00000000")
			return status, body
		},
		"no such range": func(h http.Header, _ int, _ []byte) (int, []byte) {
			clear(h)
			h.Set("Content-Type", "application/problem+json")
			return http.StatusRequestedRangeNotSatisfiable, []byte(`{"code":"range_not_satisfiable"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := 0
			odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				b.Handler().ServeHTTP(rec, r)
				status, body := rec.Code, rec.Body.Bytes()
				if r.Header.Get("Range") != "" {
					changed++
					status, body = change(rec.Header(), status, body)
				}
				for name, values := range rec.Header() {
					w.Header()[name] = values
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				w.WriteHeader(status)
				_, _ = w.Write(body)
			}))
			defer odd.Close()
			a.cut = []int{5000}
			c := newClient(t, client.Config{Gateways: []string{a.url, odd.URL}, Home: inOrder})
			got, err := c.Batch(t.Context(), client.Options{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			want, err := newClient(t, client.Config{Gateways: []string{b.url}}).Batch(t.Context(), client.Options{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if changed != 1 || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("got %d answers changed and %d bytes, want 1 and %d bytes that are the batch's", changed, len(got.Bytes()), len(want.Bytes()))
			}
			if asked, sent, ranges := a.sent(); asked != 2 || ranges[1] != "" || sent != 5000+len(want.Bytes()) {
				t.Errorf("got %d requests for %q with %d bytes, want a second one, for the whole batch", asked, ranges, sent)
			}
		})
	}
}

// TestRestIsAskedForUnderAStrongETagOnly: without a strong ETag nothing proves that the rest
// belongs to the same bytes.
func TestRestIsAskedForUnderAStrongETagOnly(t *testing.T) {
	for tag, want := range map[string]string{`"e"`: `bytes=10- if "e"`, `W/"e"`: " if ", "e": " if ", "": " if "} {
		var asked []string
		f := &fake{batches: 1, generation: "g"}
		f.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			asked = append(asked, r.Header.Get("Range")+" if "+r.Header.Get("If-Range"))
			f.answer(w, r, func(h http.Header, b []byte) []byte {
				h.Set("ETag", tag)
				if n == 0 {
					return b[:10]
				}
				return b
			})
			return true
		}
		got, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{}, 0)
		if err != nil || !bytes.Equal(got.Bytes(), body(0, 0)) {
			t.Errorf("ETag %s: got %v, or not the batch", tag, err)
		}
		if len(asked) < 2 || asked[0] != " if " || asked[1] != want {
			t.Errorf("ETag %s: asked for %q, want all and then %q", tag, asked, want)
		}
	}
}

// TestAnswerOfNoGatewayCostsNothing: the client keeps the received part of a body when another
// server responds in place of a gateway.
func TestAnswerOfNoGatewayCostsNothing(t *testing.T) {
	a := newReal(t, newStored(t), gateway.Config{})
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<p>Welcome!</p>")) }))
	defer odd.Close()
	a.cut = []int{5000}
	c := newClient(t, client.Config{Gateways: []string{a.url, odd.URL}, Home: inOrder})
	got, err := c.Batch(t.Context(), client.Options{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if asked, sent, ranges := a.sent(); asked != 2 || sent != len(got.Bytes()) {
		t.Errorf("got %d requests for %q with %d bytes, want 2 with the %d of the batch", asked, ranges, sent, len(got.Bytes()))
	}
}

func TestDrainingGatewayIsLeftAtOnce(t *testing.T) {
	s := newStored(t)
	a, b := newReal(t, s, gateway.Config{LameDuck: time.Nanosecond}), newReal(t, s, gateway.Config{})
	c := newClient(t, client.Config{Gateways: []string{a.url, b.url}, Home: inOrder})
	if _, err := c.Batch(t.Context(), client.Options{}, 0); err != nil {
		t.Fatal(err)
	}
	if asked, _, _ := a.sent(); asked != 1 {
		t.Errorf("got %d requests, want 1", asked)
	}
	a.Drain()
	for m := range uint64(5) {
		if _, err := c.Batch(t.Context(), client.Options{}, m); err != nil {
			t.Fatal(err)
		}
	}
	asked, sent, _ := a.sent()
	others, _, _ := b.sent()
	if asked != 1 || sent != 0 || others != 5 {
		t.Errorf("got %d requests to the draining gateway with %d bytes and %d to the other, want 1 with 0, and 5", asked, sent, others)
	}
}
