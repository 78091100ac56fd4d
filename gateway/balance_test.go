package gateway_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// divided is the reference for balance: it returns the places of each rank's samples.
func divided(costs []int, ranks int) [][]int {
	byCost, shares := make([]int, len(costs)), make([][]int, ranks)
	for i := range byCost {
		byCost[i] = i
	}
	sum := func(rank int) (n int) {
		for _, place := range shares[rank] {
			n += max(costs[place], 1)
		}
		return n
	}
	slices.SortStableFunc(byCost, func(a, b int) int { return costs[b] - costs[a] })
	for _, place := range byCost {
		least := 0
		for rank := range shares {
			if cmp.Or(cmp.Compare(sum(rank), sum(least)), cmp.Compare(len(shares[rank]), len(shares[least]))) < 0 {
				least = rank
			}
		}
		shares[least] = append(shares[least], place)
	}
	for range ranks {
		high, low := 0, 0
		for rank := range shares {
			if sum(rank) > sum(high) {
				high = rank
			}
			if sum(rank) < sum(low) {
				low = rank
			}
		}
		d, best, x, y := sum(high)-sum(low), -1, 0, 0
		slices.Sort(shares[high])
		slices.Sort(shares[low])
		for i, a := range shares[high] {
			for j, b := range shares[low] {
				differ := max(costs[a], 1) - max(costs[b], 1)
				if gap := max(d-2*differ, 2*differ-d); 0 < differ && differ < d && (best < 0 || gap < best) {
					best, x, y = gap, i, j
				}
			}
		}
		if best < 0 {
			break
		}
		shares[high][x], shares[low][y] = shares[low][y], shares[high][x]
	}
	for rank := range shares {
		slices.Sort(shares[rank])
	}
	return shares
}

// micro is the reference for micro: it returns a share in the order of its micro-batches, and the
// value of Millrace-Micro.
func micro(costs, share []int, batches int) (places []int, counts string) {
	if batches == 1 {
		return share, ""
	}
	own := make([]int, len(share))
	for i, place := range share {
		own[i] = costs[place]
	}
	for _, part := range divided(own, batches) {
		counts += fmt.Sprintf("%d,", len(part))
		for _, i := range part {
			places = append(places, share[i])
		}
	}
	return places, strings.TrimSuffix(counts, ",")
}

type manifestJSON struct {
	BatchSamples uint64 `json:"batch_samples"`
	BatchCost    uint64 `json:"batch_cost"`
	Micro        []uint32
	Samples      []struct {
		Position uint64
		Key      string
		KeyBytes []byte `json:"key_base64"`
	}
}

// TestBalance_DividesByLength compares bodies, headers and manifests with the reference, for every
// tail.
func TestBalance_DividesByLength(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 7}
	plan, err := shuffle.NewPlan(params, r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	order := plan.Epoch(2)
	for _, c := range []struct {
		tail    string
		batches uint64
		last    uint64 // positions of the last batch
	}{{"short", 3, 10}, {"drop", 2, 20}, {"pad", 3, 20}} {
		for _, world := range []int{1, 2, 3, 7, 30} {
			for m := range c.batches {
				count := uint64(20)
				if m == c.batches-1 {
					count = c.last
				}
				var keys []string
				var lengths []int
				total := 0
				for i := range count {
					key := r.order[order.At((m*20+i)%50)]
					keys, lengths = append(keys, key), append(lengths, len(r.samples[key]))
					total += len(r.samples[key])
				}
				for rank, share := range divided(lengths, world) {
					batches := 1 + int(m)
					share, counts := micro(lengths, share, batches)
					var want bytes.Buffer
					padded := 0
					for _, place := range share {
						want.Write(r.samples[keys[place]])
						if m*20+uint64(place) >= 50 {
							padded++
						}
					}
					want.Write(make([]byte, 1024))
					address := fmt.Sprintf("/v1/datasets/photos/epochs/2/batches/%d%%s?batch_size=20&tail=%s&balance=bytes&micro=%d&rank=%d&world_size=%d", m, c.tail, batches, rank, world)
					a := r.do("GET", fmt.Sprintf(address, ""))
					what := fmt.Sprintf("tail %s, batch %d, rank %d of %d", c.tail, m, rank, world)
					if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, want.Bytes()) {
						t.Fatalf("%s: got status %d and %d bytes, want 200 and %d", what, a.StatusCode, len(a.body), want.Len())
					}
					for name, v := range map[string]string{
						"Millrace-Samples": strconv.Itoa(len(share)), "Millrace-Padded": strconv.Itoa(padded),
						"Millrace-Batch-Samples": strconv.FormatUint(count, 10), "Millrace-Batch-Cost": strconv.Itoa(total), "Millrace-Micro": counts,
						"Millrace-Crc32c": fmt.Sprintf("%08x", crcOf(want.Bytes())),
					} {
						if got := a.Header.Get(name); got != v {
							t.Errorf("%s: got %s %q, want %q", what, name, got, v)
						}
					}
					var manifest manifestJSON
					r.json(fmt.Sprintf(address, "/manifest"), &manifest)
					if len(manifest.Samples) != len(share) || manifest.BatchSamples != count || manifest.BatchCost != uint64(total) ||
						strings.Trim(strings.ReplaceAll(fmt.Sprint(manifest.Micro), " ", ","), "[]") != counts {
						t.Fatalf("%s: got %d samples in the manifest, want %d", what, len(manifest.Samples), len(share))
					}
					for i, s := range manifest.Samples {
						if len(s.KeyBytes) > 0 {
							s.Key = string(s.KeyBytes)
						}
						if s.Key != keys[share[i]] || s.Position != m*20+uint64(share[i]) {
							t.Errorf("%s: got %q at %d in the manifest, want %q at %d", what, s.Key, s.Position, keys[share[i]], m*20+uint64(share[i]))
						}
					}
				}
			}
		}
	}
}

func TestBalanceKeepsWhatAddressesPromise(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const path = "/v1/datasets/photos/epochs/0/batches/0?rank=1&world_size=3"
	plain, neutral, dealt := r.do("GET", path), r.do("GET", path+"&balance=samples"), r.do("GET", path+"&balance=bytes")
	if got, want := neutral.Header.Get("ETag"), plain.Header.Get("ETag"); got != want {
		t.Errorf("got ETag %s at the neutral value, want %s", got, want)
	}
	if got := plain.Header.Get("Content-Location"); strings.Contains(got, "balance") {
		t.Errorf("got %s, want no balance in it", got)
	}
	if got := dealt.Header.Get("ETag"); got == plain.Header.Get("ETag") || bytes.Equal(dealt.body, plain.body) {
		t.Errorf("got ETag %s and %d bytes as without balance, want others", got, len(dealt.body))
	}
	canonical := dealt.Header.Get("Content-Location")
	if a := r.do("GET", canonical); !strings.Contains(canonical, "?balance=bytes&") || !bytes.Equal(a.body, dealt.body) {
		t.Errorf("%s: got status %d and other bytes, want balance=bytes in it and the same", canonical, a.StatusCode)
	}
	n := len(dealt.body)
	part := r.do("GET", canonical, fmt.Sprintf("Range: bytes=%d-%d", n/3, 2*n/3))
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, dealt.body[n/3:2*n/3+1]) {
		t.Errorf("got status %d and %d bytes of a part, want 206 and %d", part.StatusCode, len(part.body), 2*n/3+1-n/3)
	}
	if a := r.do("GET", canonical, "If-None-Match: "+dealt.Header.Get("ETag")); a.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for what is known, want 304", a.StatusCode)
	}
	head := r.do("HEAD", canonical)
	if head.ContentLength != int64(n) || head.Header.Get("Millrace-Crc32c") != dealt.Header.Get("Millrace-Crc32c") {
		t.Errorf("HEAD: got length %d and checksum %s, want %d and %s", head.ContentLength, head.Header.Get("Millrace-Crc32c"), n, dealt.Header.Get("Millrace-Crc32c"))
	}
	var epoch struct{ Parameters struct{ Balance string } }
	r.json("/v1/datasets/photos/epochs/0?balance=bytes", &epoch)
	if got, want := epoch.Parameters.Balance, "bytes"; got != want {
		t.Errorf("got balance %q in the plan, want %q", got, want)
	}
	alone, whole := r.do("GET", "/epoch/0/batch/1?balance=bytes"), r.do("GET", "/epoch/0/batch/1")
	if !bytes.Equal(alone.body, whole.body) {
		t.Errorf("one rank: got %d bytes that differ from the %d without balance", len(alone.body), len(whole.body))
	}
	checkProblem(t, r.do("GET", "/epoch/0/batch/0?balance=tokens"), http.StatusBadRequest, "invalid_argument", false)
}
