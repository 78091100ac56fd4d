package gateway_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// mixingJSON is a description of the mixing of batches as a client decodes it.
type mixingJSON struct {
	Mixing *struct {
		Batches  uint64
		Chunks   float64
		Variance *float64 `json:"class_variance"`
	}
}

// folders returns pictures in class folders: sizes[i] pictures of class i.
func folders(sizes ...int) map[string][]byte {
	objects := map[string][]byte{}
	for class, n := range sizes {
		for i := range n {
			objects[fmt.Sprintf("class%02d/p%05d.jpg", class, i)] = make([]byte, 100)
		}
	}
	return objects
}

// classIn returns the class in a key.
func classIn(t *testing.T, key string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(key, "class")[:2])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMixingIsWhatBatchesHold compares the mixing with figures computed from the manifests of all
// batches.
func TestMixingIsWhatBatchesHold(t *testing.T) {
	sizes := []int{300, 100, 50, 150}
	r := serveObjects(t, folders(sizes...), nil)
	chunkOf, number := map[string]int{}, uint64(0)
	for class, n := range sizes {
		for i := range n {
			chunkOf[fmt.Sprintf("class%02d/p%05d", class, i)] = r.index.ChunkOf(number)
			number++
		}
	}
	for _, query := range []string{
		"shuffle=none", "shuffle=full", "shuffle=window&window=3", "shuffle=slot&window=5&batch_size=33", "tail=pad&batch_size=70", "subset=samples:10-399,500-599",
		"quarantine=samples:1-50", "rank=1&world_size=3&batch_size=48",
	} {
		var plan struct{ Batches uint64 }
		r.json("/v1/datasets/photos/epochs/2?"+query, &plan)
		var batches [][]string
		for m := range plan.Batches {
			batches = append(batches, r.keys(fmt.Sprintf("/v1/datasets/photos/epochs/2/batches/%d?%s", m, query)))
		}
		shares := make([]float64, len(sizes))
		for class, n := range sizes {
			shares[class] = float64(n) / 600
		}
		if strings.Contains(query, "subset") {
			shares = []float64{290. / 490, 100. / 490, 0, 100. / 490}
		}
		for _, in := range [][2]uint64{{0, plan.Batches}, {2, 5}} {
			if in[1] != plan.Batches && strings.Contains(query, "subset") {
				continue // the class shares are those of the examined batches
			}
			chunks, variance := 0., 0.
			for _, keys := range batches[in[0]:in[1]] {
				seen, counts := map[int]bool{}, make([]float64, len(sizes))
				for _, key := range keys {
					seen[chunkOf[key]] = true
					counts[classIn(t, key)]++
				}
				chunks += float64(len(seen))
				distance, chance, b := 0., 0., float64(len(keys))
				for class, share := range shares {
					distance += (counts[class] - b*share) * (counts[class] - b*share)
					chance += b * share * (1 - share)
				}
				variance += distance / chance
			}
			n := float64(in[1] - in[0])
			var got mixingJSON
			r.json(fmt.Sprintf("/v1/datasets/photos/epochs/2/draws?%s&from=%d&to=%d", query, in[0], in[1]), &got)
			m := got.Mixing
			if m == nil || m.Batches != in[1]-in[0] || m.Variance == nil || math.Abs(m.Chunks-chunks/n) > 0.0051 || math.Abs(*m.Variance-variance/n) > 0.000051 {
				t.Errorf("%s, batches %v: got %+v, want %.2f chunks and variance %.4f", query, in, m, chunks/n, variance/n)
			}
		}
	}
}

// TestMixingLooksAtSome: only some batches are examined if there are too many. The data is sorted
// by ten classes of equal size, so the measured value is close to the expected one in the
// description of the epoch.
func TestMixingLooksAtSome(t *testing.T) {
	const each = 3400
	r := serveObjects(t, folders(each, each, each, each, each, each, each, each, each, each), nil)
	for query, want := range map[string]uint64{
		"shuffle=window&window=4&batch_size=16":  1 << 15 / 16,
		"shuffle=slot&window=8&batch_size=16":    1 << 15 / 16,
		"shuffle=full&batch_size=1000":           1 << 15 / 1000,
		"shuffle=none&batch_size=16&to=1000":     1000,
		"subset=samples:0-33999&batch_size=1000": 1 << 13 / 1000,
	} {
		var got mixingJSON
		var plan struct {
			Ten float64 `json:"expected_batch_variance_10"`
		}
		r.json("/v1/datasets/photos/epochs/1/draws?rows=1&columns=1&"+query, &got)
		r.json("/v1/datasets/photos/epochs/1?"+strings.Replace(query, "&to=1000", "", 1), &plan)
		m := got.Mixing
		if m == nil || m.Batches != want || m.Variance == nil || math.Abs(*m.Variance/plan.Ten-1) > 0.15 {
			t.Errorf("%s: got %+v, want %d batches and a variance of about %.3f", query, m, want, plan.Ten)
			continue
		}
		t.Logf("figure: %s: measured %.3f, expected %.3f", query, *m.Variance, plan.Ten)
	}
}

// TestMixingOfUnknownClasses: without known classes the mixing has only the chunks. There is no
// mixing if a single batch is too large to examine.
func TestMixingOfUnknownClasses(t *testing.T) {
	r := newRig(t, 100, 800, nil)
	var got mixingJSON
	r.json("/v1/datasets/photos/epochs/2/draws", &got)
	if got.Mixing == nil || got.Mixing.Batches != 7 || got.Mixing.Chunks < 1 || got.Mixing.Variance != nil {
		t.Errorf("got %+v of tars, want seven batches and no variance of classes", got.Mixing)
	}
	for _, query := range []string{"tail=drop&batch_size=1000", "tail=pad&batch_size=32769"} {
		got = mixingJSON{}
		if r.json("/v1/datasets/photos/epochs/2/draws?"+query, &got); got.Mixing != nil {
			t.Errorf("%s: got %+v, want none", query, got.Mixing)
		}
	}
}

// TestEpochsLinkToTheirPictures: an epoch links to its picture if there is one, and the link has
// the same plan.
func TestEpochsLinkToTheirPictures(t *testing.T) {
	r := newRig(t, 100, 800, nil)
	for query, linked := range map[string]bool{"window=5&seed=9": true, "balance=bytes": true, "balance=bytes&world_size=2": false, "share=locality&world_size=2&window=8": false} {
		var plan struct{ Links struct{ Draws string } }
		r.json("/v1/datasets/photos/epochs/2?"+query, &plan)
		if (plan.Links.Draws != "") != linked {
			t.Errorf("%s: got the link %q, want one: %v", query, plan.Links.Draws, linked)
			continue
		}
		if !linked {
			continue
		}
		if there, here := r.do("GET", plan.Links.Draws), r.do("GET", "/v1/datasets/photos/epochs/2/draws?"+query); string(there.body) != string(here.body) || here.StatusCode != 200 {
			t.Errorf("%s: the link leads to another picture: %s and %s", query, there.body, here.body)
		}
	}
}
