package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
)

// newRepeatingRig serves photos and a dataset whose shards are the same tar under several names.
func newRepeatingRig(t *testing.T, shards []string) *rig {
	var again *source
	r := newRig(t, 6, 400, func(cfg *gateway.Config) {
		photos := cfg.Datasets[0].Source.(*source)
		store := photos.store.(prefixStore).Store
		body := rawMember(t, "0.txt", []byte("zero"))
		body = append(body, rawMember(t, "1.txt", []byte("one"))...)
		body = append(body, make([]byte, 1024)...)
		for i, shard := range shards {
			content := bytes.Replace(body, []byte("zero"), fmt.Appendf(nil, "%04d", i), 1)
			if _, err := store.Put(t.Context(), "again/"+shard, bytes.NewReader(content), int64(len(content)), objstore.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := build.Run(t.Context(), store, "again/", build.Options{Split: build.AllSplits}); err != nil {
			t.Fatal(err)
		}
		index, err := chunkindex.Open(t.Context(), store, "again/", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { index.Close() })
		again = &source{index: index, store: prefixStore{store, "again/"}}
		cfg.Datasets = append(cfg.Datasets, gateway.Dataset{Name: "again", Index: index, Source: again})
	})
	return r
}

// TestKeysThatSeveralShardsHave: a key in several shards requires the shard parameter. Without it
// the error lists the shards.
func TestKeysThatSeveralShardsHave(t *testing.T) {
	shards := []string{"train/000.tar", "val & co/000.tar"}
	r := newRepeatingRig(t, shards)
	const at = "/v1/datasets/again/"
	for _, path := range []string{at + "sample?key=0", at + "occurrences?key=0&epochs=0-2"} {
		p := checkProblem(t, r.do("GET", path), http.StatusConflict, "ambiguous_key", false)
		if !slices.Equal(p.Shards, shards) || p.More == nil || *p.More || !strings.Contains(p.Detail, "shard=") {
			t.Errorf("%s: got %+v, want the shards %q", path, p, shards)
		}
		missing := checkProblem(t, r.do("GET", path+"&shard=none.tar"), http.StatusNotFound, "not_found", false)
		if !strings.Contains(missing.Detail, "shard") {
			t.Errorf("%s: got %q, want one that speaks of the shard", path, missing.Detail)
		}
		checkProblem(t, r.do("GET", path+"&shard="), http.StatusBadRequest, "invalid_argument", false)
	}
	var etags []string
	for i, escaped := range []string{"train%2F000.tar", "val+%26+co%2F000.tar"} {
		a := r.do("GET", at+"sample?key=0&shard="+escaped)
		if a.StatusCode != http.StatusOK || !bytes.Contains(a.body, fmt.Appendf(nil, "%04d", i)) {
			t.Errorf("shard %s: got %d %q, want the sample of this shard", escaped, a.StatusCode, a.body)
		}
		where := a.Header.Get("Content-Location")
		if again := r.do("GET", where); !strings.HasSuffix(where, "&shard="+escaped) || !bytes.Equal(again.body, a.body) {
			t.Errorf("shard %s: got the canonical address %s, which answers %d", escaped, where, again.StatusCode)
		}
		etags = append(etags, a.Header.Get("ETag"))
		o := r.do("GET", at+"occurrences?key=0&epochs=0-2&shuffle=none&shard="+escaped)
		var got struct{ Occurrences []struct{ Position int } }
		if err := json.Unmarshal(o.body, &got); err != nil || len(got.Occurrences) != 3 || got.Occurrences[0].Position != 2*i {
			t.Errorf("shard %s: got %s, want position %d in each epoch", escaped, o.body, 2*i)
		}
	}
	if etags[0] == etags[1] {
		t.Errorf("got one ETag %s for two samples", etags[0])
	}
}

// TestManyShardsOfOneKey: the list of shards is shorter than the number of bytes of a problem that
// clients read.
func TestManyShardsOfOneKey(t *testing.T) {
	var shards []string
	for i := range 150 {
		shards = append(shards, fmt.Sprintf("%03d-%s.tar", i, strings.Repeat("x", 200)))
	}
	r := newRepeatingRig(t, shards)
	a := r.do("GET", "/v1/datasets/again/sample?key=0")
	p := checkProblem(t, a, http.StatusConflict, "ambiguous_key", false)
	if p.More == nil || !*p.More || len(p.Shards) == 0 || len(a.body) > 16<<10 || !strings.Contains(p.Detail, "more than 100") {
		t.Errorf("got %d shards in %d bytes: %s", len(p.Shards), len(a.body), p.Detail)
	}
}
