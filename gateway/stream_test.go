package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestManyBatchesAreTheBatches splits a response with several batches, and compares each batch with
// a separate response.
func TestManyBatchesAreTheBatches(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for _, plan := range []string{"?", "?rank=1&world_size=3&tail=pad&format=framed&table=keys&", "?fields=cls&batch_size=7&", "?balance=bytes&rank=0&world_size=2&tail=pad&", "?balance=bytes&micro=3&rank=1&world_size=2&"} {
		path := "/v1/datasets/photos/epochs/2/batches" + plan + "count=3&from=1"
		a := r.do("GET", path)
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "application/vnd.millrace.batches" {
			t.Fatalf("%s: got status %d as %s: %.300s", path, a.StatusCode, a.Header.Get("Content-Type"), a.body)
		}
		le, rest := binary.LittleEndian, a.body
		for m := 1; m <= 3; m++ {
			h := rest[:le.Uint16(rest[6:])]
			body := rest[len(h) : len(h)+int(le.Uint64(h[16:]))]
			rest = rest[len(h)+len(body):]
			b := r.do("GET", "/v1/datasets/photos/epochs/2/batches/"+strconv.Itoa(m)+strings.TrimSuffix(plan, "&"))
			if string(h[:4]) != "MLRB" || le.Uint16(h[4:]) != 1 || !bytes.Equal(body, b.body) {
				t.Errorf("%s: batch %d: got header %x and %d bytes, want the %d of the batch", plan, m, h, len(body), len(b.body))
			}
			got := fmt.Sprintf(`%d %08x %d %d "%s"`, le.Uint64(h[8:]), le.Uint32(h[24:]), le.Uint32(h[28:]), le.Uint32(h[32:]), hex.EncodeToString(h[40:72]))
			want := fmt.Sprintf("%d %s %s %s %s", m, b.Header.Get("Millrace-Crc32c"), b.Header.Get("Millrace-Samples"), b.Header.Get("Millrace-Padded"), b.Header.Get("ETag"))
			if got != want {
				t.Errorf("%s: batch %d: got %s, want %s", plan, m, got, want)
			}
			var micro []string
			for at := 80; at < len(h); at += 4 {
				micro = append(micro, fmt.Sprint(le.Uint32(h[at:])))
			}
			got = fmt.Sprintf("%d %d %s", le.Uint32(h[36:]), le.Uint64(h[72:]), strings.Join(micro, ","))
			want = b.Header.Get("Millrace-Batch-Samples") + " " + cmp.Or(b.Header.Get("Millrace-Batch-Cost"), "0") + " " + b.Header.Get("Millrace-Micro")
			if got != want {
				t.Errorf("%s: batch %d: got totals %s, want %s", plan, m, got, want)
			}
		}
		if len(rest) != 0 {
			t.Errorf("%s: got %d bytes after the last batch, want none", plan, len(rest))
		}
	}
}

func TestManyBatchesEndWithTheEpoch(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	numbers := func(a answer) (got []uint64) {
		for rest := a.body; len(rest) > 0; rest = rest[80+binary.LittleEndian.Uint64(rest[16:]):] {
			got = append(got, binary.LittleEndian.Uint64(rest[8:]))
		}
		return got
	}
	var got []uint64
	for next := "/epoch/0/batches?count=3"; next != ""; {
		a := r.do("GET", next)
		got = append(got, numbers(a)...)
		next, _, _ = strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">")
	}
	if fmt.Sprint(got) != "[0 1 2 3]" {
		t.Errorf("got batches %v by following the links, want 0 to 3", got)
	}
	checkProblem(t, r.do("GET", "/epoch/0/batches?from=4"), http.StatusNotFound, "end_of_epoch", false)
	checkProblem(t, r.do("GET", "/epoch/0/batches?count=0"), http.StatusBadRequest, "invalid_argument", false)
	checkProblem(t, r.do("GET", "/epoch/0/batches?count=1024&batch_size=1&from=x"), http.StatusBadRequest, "invalid_argument", false)
}

// TestManyBatchesBreakOffWhereOneCannotBeRead: if a batch cannot be read, the gateway sends the
// whole batches before it and closes the connection.
func TestManyBatchesBreakOffWhereOneCannotBeRead(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	var left atomic.Int64 // number of reads before one fails
	r.source.before = func(context.Context) error {
		if left.Add(-1) == 0 {
			return objstore.ErrUnavailable
		}
		return nil
	}
	whole := r.do("GET", "/epoch/0/batches?count=4")
	second := 80 + int(binary.LittleEndian.Uint64(whole.body[16:]))
	left.Store(3)
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.server.URL+"/epoch/0/batches?count=4", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) <= second || !bytes.HasPrefix(whole.body, got) {
		t.Errorf("got %d bytes and %v, want two batches and a connection that breaks off", len(got), err)
	}
	if at := second + 80 + int(binary.LittleEndian.Uint64(whole.body[second+16:])); len(got) != at {
		t.Errorf("got %d bytes, want the %d of two batches", len(got), at)
	}
	left.Store(1)
	checkProblem(t, r.do("GET", "/epoch/0/batches?count=4"), http.StatusServiceUnavailable, "store_unavailable", true)
}

// TestEpochAsDirectories: the lists contain every batch with its length, and each batch has a file
// with its name.
func TestEpochAsDirectories(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	var index struct {
		Version int
		Shards  []struct {
			Format string
			Names  []string `json:"column_names"`
			Raw    struct {
				Basename string
				Bytes    int
			} `json:"raw_data"`
			Samples int
		}
	}
	const directory = "/v1/datasets/photos/epochs/5/mds/seed=9&batch_size=20/"
	list := r.do("GET", directory+"index.json")
	if err := json.Unmarshal(list.body, &index); err != nil {
		t.Fatal(err)
	}
	if !list.Close {
		t.Error("the list of shards: got a connection that stays, which forked workers would share")
	}
	samples := 0
	for m, s := range index.Shards {
		a := r.do("GET", directory+s.Raw.Basename)
		if len(a.body) != s.Raw.Bytes || s.Raw.Basename != fmt.Sprintf("shard.%05d.mds", m) || s.Format != "mds" || a.Header.Get("Millrace-Batch") != strconv.Itoa(m) {
			t.Errorf("shard %d: got %+v and a file of %d bytes", m, s, len(a.body))
		}
		if got := len(readMDS(t, a.body)); got != s.Samples {
			t.Errorf("shard %d: got %d samples, want %d", m, got, s.Samples)
		}
		samples += s.Samples
	}
	if samples != 50 || len(index.Shards) != 3 || fmt.Sprint(index.Shards[0].Names) != "[__key__ bin cls]" {
		t.Errorf("got %d samples in %d shards of columns %v, want 50 in 3", samples, len(index.Shards), index.Shards[0].Names)
	}
	escaped := r.do("GET", strings.NewReplacer("=", "%3D", "&", "%26").Replace(directory)+"shard.00000.mds")
	if plain := r.do("GET", directory+"shard.00000.mds"); !bytes.Equal(escaped.body, plain.body) {
		t.Errorf("escaped plan: got status %d and other bytes", escaped.StatusCode)
	}

	var wids struct {
		Shards []struct {
			URL     string
			Samples int `json:"nsamples"`
			Bytes   int `json:"filesize"`
		} `json:"shardlist"`
	}
	if err := json.Unmarshal(r.do("GET", "/v1/datasets/photos/epochs/5/wds/index.json?seed=9").body, &wids); err != nil || len(wids.Shards) != 4 {
		t.Fatalf("got %d tars and %v, want 4", len(wids.Shards), err)
	}
	for m, s := range wids.Shards {
		tar, batch := r.do("GET", "/v1/datasets/photos/epochs/5/wds/"+s.URL+"?seed=9"), r.do("GET", fmt.Sprintf("/epoch/5/batch/%d?seed=9", m))
		if !bytes.Equal(tar.body, batch.body) || len(tar.body) != s.Bytes || batch.Header.Get("Millrace-Samples") != strconv.Itoa(s.Samples) {
			t.Errorf("tar %d: got %+v and a file of %d bytes, want the batch of %d", m, s, len(tar.body), len(batch.body))
		}
	}
	for _, name := range []string{"shard.0.mds", "shard.000000.mds", "shard.+0000.mds", "shard.00000.tar", "index", "shard..mds", "shard.99999999999999999999.mds"} {
		checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/5/mds/"+name), http.StatusNotFound, "not_found", false)
	}
	checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/5/mds/shard.99999.mds"), http.StatusNotFound, "end_of_epoch", false)
	checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/5/mds/seed=x/index.json"), http.StatusBadRequest, "invalid_argument", false)
}

// TestVirtualDirectoryIsADataset serves an epoch as an MDS dataset, indexes it, and finds the same
// samples.
func TestVirtualDirectoryIsADataset(t *testing.T) {
	w := writeTars(t)
	r := serveObjects(t, w.objects, nil)
	const directory = "/v1/datasets/photos/epochs/0/mds/"
	objects := map[string][]byte{"index.json": r.do("GET", directory+"index.json").body}
	for m := range 3 {
		name := fmt.Sprintf("shard.%05d.mds", m)
		objects[name] = r.do("GET", directory+name).body
	}
	again := serveObjects(t, objects, nil)
	var keys []string
	for m := range 3 {
		keys = append(keys, r.keys(fmt.Sprintf("/v1/datasets/photos/epochs/0/batches/%d?", m))...)
	}
	native := again.do("GET", formBatch+"0?shuffle=none&batch_size=64")
	if got := native.Header.Get("Content-Type"); got != "application/vnd.mosaicml.mds" {
		t.Errorf("got batches as %s, want MDS", got)
	}
	same(t, "the dataset of the epoch", readMDS(t, native.body), w.expected("mds", keys, nil))
	if a := again.do("GET", "/v1/datasets/photos/epochs/0/mds/index.json?shuffle=none&batch_size=64"); !strings.Contains(string(a.body), `"samples": 40`) {
		t.Errorf("got index %.300s, want one shard of 40 samples", a.body)
	}
}
