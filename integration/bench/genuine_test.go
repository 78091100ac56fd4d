package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func TestWhole_RefusesAnswersWithoutTheirSamples(t *testing.T) {
	for _, d := range []set{setOf("photos", 64), setOf("text", 64)} {
		path := d.path(0, 0)
		if err := whole(path, batch, d.body()); err != nil {
			t.Error(err)
		}
		for _, c := range []struct{ samples, length int64 }{{0, 0}, {0, trailer}, {batch, 0}, {batch, trailer}, {batch, d.body() - 512}, {1, d.body()}} {
			if whole(path, c.samples, c.length) == nil {
				t.Errorf("%s: %d bytes of %d samples are whole, want an error", d.name, c.length, c.samples)
			}
		}
	}
	if err := whole("/hot", 0, 100); err != nil {
		t.Errorf("a bare handler: %v", err)
	}
}

func TestLook_RefusesWhatTheStoreHasNot(t *testing.T) {
	store, d := memstore.New(), setOf("text", 64)
	if err := d.fill(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	shard, err := d.tar(0)
	if err != nil {
		t.Fatal(err)
	}
	good := func() []byte { return append(append([]byte{}, shard[:batch*d.stride()]...), make([]byte, trailer)...) }
	if names, err := d.look(t.Context(), store, good()); err != nil || len(names) != batch {
		t.Fatalf("got %d samples, %v; want %d", len(names), err, batch)
	}
	zeros, twice, other := good(), good(), good()
	clear(zeros)
	copy(twice[d.stride():2*d.stride()], twice[:d.stride()])
	other[512]++
	for want, body := range map[string][]byte{
		"no samples": make([]byte, trailer), "sample \"\"": zeros, "twice": twice, "not what the store has": other,
	} {
		if _, err := d.look(t.Context(), store, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestMixed_RefusesAnOrderThatDoesNothing(t *testing.T) {
	const each = 1000
	first := make([]uint64, 101)
	for i := range first {
		first[i] = uint64(i) * each
	}
	good := make([]uint64, batch)
	for i := range good {
		good[i] = uint64(i)%64*each + uint64(i)
	}
	if err := mixed(good, first); err != nil {
		t.Error(err)
	}
	stored, same, beyond := make([]uint64, batch), slices.Clone(good), slices.Clone(good)
	for i := range stored {
		stored[i] = uint64(i)
	}
	same[1], beyond[0] = same[0], 100*each
	for what, samples := range map[string][]uint64{"nothing": nil, "stored order": stored, "a sample twice": same, "a sample beyond": beyond} {
		if mixed(samples, first) == nil {
			t.Errorf("%s: is mixed, want an error", what)
		}
	}
}

func TestThroughPeers_RefusesAFrontThatAsksNobody(t *testing.T) {
	counts := func(stored, asked float64) map[string]float64 {
		return map[string]float64{"millrace_store_reads_total": stored, "millrace_peer_read_bytes_total": asked}
	}
	if err := throughPeers(counts(5, 100), counts(5, 1000), 1000); err != nil {
		t.Error(err)
	}
	for what, after := range map[string]map[string]float64{"from memory": counts(5, 100), "from the store": counts(6, 1000)} {
		if throughPeers(counts(5, 100), after, 1000) == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	if throughPeers(nil, nil, 0) == nil {
		t.Error("a front that counts nothing: got no error")
	}
}
