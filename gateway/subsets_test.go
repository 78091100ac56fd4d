package gateway_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway"
)

const subsetsPath = "/v1/datasets/photos/subsets"

type storedSubset struct {
	Subset, Generation string
	Samples            uint64
	Repeated           int
}

// keep stores a subset.
func (r *rig) keep(status int, wish any) (k storedSubset) {
	r.t.Helper()
	body, err := json.Marshal(wish)
	if err != nil {
		r.t.Fatal(err)
	}
	a := r.post(subsetsPath, string(body))
	if a.StatusCode != status {
		r.t.Fatalf("got status %d, want %d: %s", a.StatusCode, status, a.body)
	}
	if err := json.Unmarshal(a.body, &k); err != nil {
		r.t.Fatal(err)
	}
	return k
}

// TestPostSubset_Keys stores every other key twice, and reads the subset and the rest.
func TestPostSubset_Keys(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	var keys, others []string
	for i, key := range r.order {
		if i%2 == 0 {
			keys = append(keys, key)
		} else {
			others = append(others, key)
		}
	}
	shuffled := append(slices.Clone(keys), keys[3])
	slices.Reverse(shuffled)
	k := r.keep(http.StatusCreated, map[string]any{"keys": shuffled})
	if again := r.keep(http.StatusOK, map[string]any{"keys": keys}); k.Samples != 25 || k.Repeated != 1 || again.Subset != k.Subset || again.Repeated != 0 {
		t.Errorf("got %+v and %+v", k, again)
	}
	if got := r.epochKeys(0, "shuffle=none&subset="+k.Subset); !slices.Equal(got, keys) {
		t.Errorf("got %v, want %v", got, keys)
	}
	got := r.epochKeys(0, "shuffle=slot&window=4&subset="+strings.Replace(k.Subset, ":listed", ":rest", 1))
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(others))) {
		t.Errorf("the rest: got %v, want %v", got, others)
	}
	a := r.do("GET", "/epoch/0/batch/0?subset="+k.Subset)
	pinned := r.do("GET", a.Header.Get("Content-Location"))
	if !strings.Contains(a.Header.Get("Content-Location"), "&subset="+k.Subset) || a.Header.Get("ETag") == "" || !strings.Contains(pinned.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("got headers %v, and of the canonical address %v", a.Header, pinned.Header)
	}
}

// TestPostSubset_Text stores a subset whose text is too long for an address.
func TestPostSubset_Text(t *testing.T) {
	r := newRig(t, 3000, 800, nil)
	var text strings.Builder
	text.WriteString("train=3,val=1:train~samples:0")
	var want []string
	train := r.epochKeys(0, "shuffle=none&batch_size=100&subset=train=3,val=1:train")
	for i := 0; i < len(train); i += 2 {
		if want = append(want, train[i]); i > 0 {
			text.WriteString("," + strconv.Itoa(i))
		}
	}
	for i := range 2500 { // past the end
		text.WriteString("," + strconv.Itoa(5000+2*i))
	}
	k := r.keep(http.StatusCreated, map[string]any{"subset": text.String()})
	if got := r.epochKeys(0, "shuffle=none&batch_size=100&subset="+k.Subset); !slices.Equal(got, want) {
		t.Errorf("got %d samples, want %d", len(got), len(want))
	}
}

func TestPostSubset_Refuses(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for body, want := range map[string]string{
		`{}`:                                    "either keys",
		`{"keys":["x"],"subset":"samples:0-3"}`: "either keys",
		`{"keys":["nowhere"]}`:                  `keys: no sample has 1 of 1 keys: \"nowhere\"`,
		`{"subset":"samples:3,1"}`:              "must ascend",
		`{"subset":"samples:60-70"}`:            "no sample is left",
		`{"numbers":[1]}`:                       "unknown field",
	} {
		if a := r.post(subsetsPath, body); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got status %d and %s, want 400 with %q", body, a.StatusCode, a.body, want)
		}
	}
	readOnly := newRig(t, 20, 800, nil)
	readOnly = newRig(t, 20, 800, func(c *gateway.Config) {
		s, err := selection.New(selection.Config{Reader: readOnly.store, Prefix: "data/"})
		if err != nil {
			t.Fatal(err)
		}
		c.Datasets[0].Selection = s
	})
	if a := readOnly.post(subsetsPath, `{"subset":"samples:0-3"}`); a.StatusCode != http.StatusForbidden || !strings.Contains(string(a.body), "read_only") {
		t.Errorf("a bucket without writes: got status %d and %s, want 403 read_only", a.StatusCode, a.body)
	}
	none := newRig(t, 20, 800, func(c *gateway.Config) { c.Datasets[0].Selection = nil })
	if a := none.post(subsetsPath, `{"subset":"samples:0-3"}`); a.StatusCode != http.StatusNotFound {
		t.Errorf("without selections: got status %d, want 404", a.StatusCode)
	}
}
