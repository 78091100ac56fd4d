package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// keysOfEpoch reads an epoch through several gateways, which must return the same bytes, and
// returns the keys of its positions.
func keysOfEpoch(t *testing.T, set, query string, gateways ...*harness.Gateway) []string {
	t.Helper()
	var keys []string
	for m := 0; ; m++ {
		path := fmt.Sprintf("/v1/datasets/%s/epochs/1/batches/%d", set, m)
		first := gateways[0].Get(t, path+query)
		if first.Status == http.StatusNotFound && m > 0 {
			return keys
		}
		if first.Status != http.StatusOK {
			t.Fatalf("%s%s: got status %d %s", path, query, first.Status, first.Body)
		}
		for _, g := range gateways[1:] {
			if got := g.MustGet(t, path+query); !bytes.Equal(got.Body, first.Body) || got.Header.Get("ETag") != first.Header.Get("ETag") {
				t.Fatalf("%s%s: got %d bytes that differ from the %d of the first gateway", path, query, len(got.Body), len(first.Body))
			}
		}
		for _, s := range gateways[0].Manifest(t, path, query) {
			keys = append(keys, s.Key)
		}
	}
}

// TestSelections splits a dataset into train and val, quarantines samples, and mixes the dataset
// with another one. Two gateways return the same bytes.
func TestSelections(t *testing.T) {
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			store := harness.Open(t, kind)
			files, _ := harness.Files(t, 300, 2000)
			harness.Pack(t, store, files, "set", small()...)
			more, _ := harness.Files(t, 100, 1000)
			harness.Pack(t, store, more, "more", small()...)
			args := []string{"--dataset", "more=" + store.Dataset("more"), "--mixture", "blend=set:3,more:1,samples=200", "--mixture", "fixed=set:9,more:3,per-batch", "--cache-size", "64MiB"}
			one, two := harness.Serve(t, store, "set", args...), harness.Serve(t, store, "set", args...)
			whole := keysOfEpoch(t, "set", "?batch_size=64", one, two)

			harness.MustRun(t, store, "subset", store.Dataset("set"), "--into", "train=4,val=1")
			train, val := keysOfEpoch(t, "set", "?batch_size=64&subset=train", one, two), keysOfEpoch(t, "set", "?batch_size=64&subset=val", two, one)
			if got, want := slices.Sorted(slices.Values(slices.Concat(train, val))), slices.Sorted(slices.Values(whole)); !slices.Equal(got, want) || len(val) < 30 || len(val) > 90 {
				t.Errorf("train has %d samples and val %d, want each of %d in one of them", len(train), len(val), len(want))
			}

			var made struct{ Quarantine string }
			bad := whole[10:14]
			out := harness.MustRun(t, store, "quarantine", store.Dataset("set"), "--key", bad[0], "--key", bad[1], "--key", bad[2], "--key", bad[3], "--json")
			if err := json.Unmarshal([]byte(out), &made); err != nil {
				t.Fatal(err)
			}
			healthy := keysOfEpoch(t, "set", "?batch_size=64&quarantine="+made.Quarantine, one, two)
			for at, key := range whole {
				if is := at >= 10 && at < 14; (healthy[at] == key) == is || slices.Contains(bad, healthy[at]) {
					t.Errorf("position %d: got %s, with %s there before: only the bad are replaced, and by healthy ones", at, healthy[at], key)
				}
			}
			checkMixtures(t, one, two)
			checkWritten(t, one, two, train, healthy, bad)
			harness.MustRun(t, store, "fetch", one.URL, "--dataset", "mix:set(subset=train=4,val=1:train):3,more:1")
		})
	}
}

// checkWritten reads the same parts and mixtures through addresses that contain their definitions.
func checkWritten(t *testing.T, one, two *harness.Gateway, train, healthy, bad []string) {
	t.Helper()
	if got := keysOfEpoch(t, "set", "?batch_size=64&subset=train=80,val=20:train", two, one); !slices.Equal(got, train) {
		t.Errorf("a split in the address: got %d samples in another order, want those of the stored one", len(got))
	}
	if got, want := keysOfEpoch(t, "set", "?batch_size=64&shuffle=none&subset=train=4,val=1:train~samples:0-9", one, two), keysOfEpoch(t, "set", "?batch_size=64&shuffle=none&subset=train", one, two)[:10]; !slices.Equal(got, want) {
		t.Errorf("the first samples of a split: got %v, want %v", got, want)
	}
	stored := keysOfEpoch(t, "set", "?batch_size=64&shuffle=none", one, two)
	var numbers []int
	for _, key := range bad {
		numbers = append(numbers, slices.Index(stored, key))
	}
	slices.Sort(numbers)
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
	if got := keysOfEpoch(t, "set", "?batch_size=64&quarantine=samples:"+list, two, one); !slices.Equal(got, healthy) {
		t.Errorf("bad samples in the address: got other samples than by the stored list")
	}
	for set, written := range map[string]string{"blend": "mix:set:6,more:2,samples=200", "fixed": "mix:set:9,more:3,per-batch"} {
		if got, want := keysOfEpoch(t, written, "?seed=4", one, two), keysOfEpoch(t, set, "?seed=4", one, two); !slices.Equal(got, want) {
			t.Errorf("%s: got another order than that of %s", written, set)
		}
	}
	parts := keysOfEpoch(t, "mix:set(quarantine=samples:"+list+"&subset=train=4,val=1:train):1,more(subset=samples:0-9):1", "?batch_size=32", one, two)
	if slices.ContainsFunc(parts, func(key string) bool { return slices.Contains(bad, key) }) || len(parts) != len(train)+10 {
		t.Errorf("a mixture of parts: got %d samples, some of them bad, want %d healthy ones", len(parts), len(train)+10)
	}
}

// checkMixtures counts the samples of each source in two mixtures.
func checkMixtures(t *testing.T, one, two *harness.Gateway) {
	t.Helper()
	if n := len(keysOfEpoch(t, "blend", "?batch_size=50", one, two)); n != 200 {
		t.Errorf("blend: got %d samples, want 200", n)
	}
	for _, c := range []struct {
		set, query string
		near       int
		want       map[string]int
	}{{"blend", "?batch_size=40", 4, map[string]int{"set": 30, "more": 10}}, {"fixed", "", 0, map[string]int{"set": 9, "more": 3}}} {
		for m := range 4 {
			path := fmt.Sprintf("/v1/datasets/%s/epochs/0/batches/%d/manifest%s", c.set, m, c.query)
			var list struct{ Samples []struct{ Source string } }
			if err := json.Unmarshal(one.MustGet(t, path).Body, &list); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, s := range list.Samples {
				got[s.Source]++
			}
			for source, want := range c.want {
				if off := got[source] - want; max(off, -off) > c.near {
					t.Errorf("%s: got %v, want %v", path, got, c.want)
				}
			}
			if sources := slices.Sorted(maps.Keys(got)); strings.Join(sources, " ") != "more set" {
				t.Errorf("%s: got sources %v", path, sources)
			}
		}
	}
}
