package integration_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

const dataset = "photos"

// small are the sizes that give a few hundred files several shards and many chunks.
func small() []string { return []string{"--shard-size", "256KiB", "--chunk-size", "32KiB"} }

// reader reads batches and keeps two accounts: what was delivered, and the digest of
// every address, which must never change.
type reader struct {
	t       *testing.T
	content map[string]string   // member name -> bytes, as they were packed
	digests map[string][32]byte // batch URL -> digest of the first answer
	seen    map[string]int      // member name -> times delivered in this epoch
}

func newReader(t *testing.T, content map[string]string) *reader {
	return &reader{t: t, content: content, digests: map[string][32]byte{}, seen: map[string]int{}}
}

func batchPath(epoch, batch int) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", dataset, epoch, batch)
}

func share(batchSize, rank, world int) string {
	return fmt.Sprintf("?batch_size=%d&rank=%d&world_size=%d", batchSize, rank, world)
}

// step reads global batch m as world ranks and returns their bodies joined, end blocks cut.
func (r *reader) step(g *harness.Gateway, epoch, m, batchSize, world int) []byte {
	r.t.Helper()
	var joined []byte
	for rank := range world {
		path := batchPath(epoch, m) + share(batchSize, rank, world)
		answer := g.MustGet(r.t, path)
		digest := sha256.Sum256(answer.Body)
		if before, ok := r.digests[path]; ok && before != digest {
			r.t.Fatalf("%s: bytes differ from an earlier answer", path)
		}
		r.digests[path] = digest
		r.count(path, answer)
		joined = append(joined, answer.Body[:len(answer.Body)-1024]...)
	}
	return joined
}

// count opens one body and checks every member against the file that was packed.
func (r *reader) count(path string, answer harness.Response) {
	r.t.Helper()
	if got, want := answer.Header.Get("Content-Length"), strconv.Itoa(len(answer.Body)); got != want {
		r.t.Fatalf("%s: Content-Length: got %s, want %s", path, got, want)
	}
	for archive := tar.NewReader(bytes.NewReader(answer.Body)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.t.Fatalf("%s: %v", path, err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			r.t.Fatalf("%s: %s: %v", path, header.Name, err)
		}
		want, ok := r.content[header.Name]
		if !ok || string(data) != want {
			r.t.Fatalf("%s: %s: got %d bytes that were not packed under this name", path, header.Name, len(data))
		}
		r.seen[header.Name]++
	}
}

// endEpoch checks that every member came exactly once, and opens the next account.
func (r *reader) endEpoch(what string) {
	r.t.Helper()
	for name := range r.content {
		if n := r.seen[name]; n != 1 {
			r.t.Fatalf("%s: %s was delivered %d times, want once", what, name, n)
		}
	}
	if len(r.seen) != len(r.content) {
		r.t.Fatalf("%s: got %d members, want %d", what, len(r.seen), len(r.content))
	}
	clear(r.seen)
}

func batches(t *testing.T, g *harness.Gateway, epoch, batchSize int) int {
	t.Helper()
	r := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/%d?batch_size=%d", dataset, epoch, batchSize))
	var plan struct{ Batches int }
	if err := json.Unmarshal(r.Body, &plan); err != nil || plan.Batches < 2 {
		t.Fatalf("got %s, %v, want more than one batch", r.Body, err)
	}
	return plan.Batches
}

func sampleCount() int {
	if long() {
		return 4000
	}
	return 400
}

// onEveryStore packs the same files into a fresh store of each kind and runs test there,
// with a reader that knows what was packed.
func onEveryStore(t *testing.T, test func(t *testing.T, store *harness.Store, r *reader)) {
	t.Helper()
	files, content := harness.Files(t, sampleCount(), 4000)
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			store := harness.Open(t, kind)
			harness.Pack(t, store, files, dataset, small()...)
			test(t, store, newReader(t, content))
		})
	}
}

// serve starts a gateway whose cache holds all of what onEveryStore packs, unless args
// say otherwise.
func serve(t *testing.T, store *harness.Store, args ...string) *harness.Gateway {
	t.Helper()
	return harness.Serve(t, store, dataset, append([]string{"--cache-size", "64MiB"}, args...)...)
}

// TestEverySampleExactlyOnce reads epochs with 1, 2, 3 and 8 ranks at two batch sizes:
// each gives every sample once, and the order does not depend on the world size.
func TestEverySampleExactlyOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		g := serve(t, store)
		for _, batchSize := range []int{7, 64} {
			order := map[int][]byte{}
			for _, world := range []int{1, 2, 3, 8} {
				for m := range batches(t, g, 0, batchSize) {
					joined := r.step(g, 0, m, batchSize, world)
					if world == 1 {
						order[m] = joined
					} else if !bytes.Equal(joined, order[m]) {
						t.Fatalf("batch %d of size %d: the shares of %d ranks differ from the global batch", m, batchSize, world)
					}
				}
				r.endEpoch(fmt.Sprintf("batch size %d, world size %d", batchSize, world))
			}
		}
	})
}

// TestWorldChangesAndGatewayDies reads an epoch whose world size changes on the way, and
// whose gateway is killed and replaced: every sample still comes once.
func TestWorldChangesAndGatewayDies(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		for _, batchSize := range []int{7, 64} {
			g := serve(t, store)
			n := batches(t, g, 1, batchSize)
			for m := range n {
				world := 3
				if m >= n/2 {
					world = 8
				}
				if m == n/3 {
					g.Kill()
					g = serve(t, store)
				}
				r.step(g, 1, m, batchSize, world)
			}
			r.endEpoch(fmt.Sprintf("batch size %d", batchSize))
		}
	})
}

// TestSameBytesFromEveryGateway asks for the same addresses cold, warm, after a restart,
// from a second gateway, and from one whose cache is too small for the plan.
func TestSameBytesFromEveryGateway(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		epoch := func(g *harness.Gateway, what string) {
			t.Helper()
			for m := range batches(t, g, 2, 16) {
				r.step(g, 2, m, 16, 2)
			}
			r.endEpoch(what)
		}
		first := serve(t, store)
		epoch(first, "cold")
		epoch(first, "warm")
		epoch(serve(t, store), "second gateway")
		first.Kill()
		epoch(serve(t, store), "restarted")
		epoch(serve(t, store, "--cache-size", "16MiB"), "small cache")
	})
}
