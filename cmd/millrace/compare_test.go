package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
)

// sorted packs samples sorted by class, and returns the directory of the shards and the command's
// output.
func sorted(t *testing.T, args ...string) (dir string, said outcome) {
	t.Helper()
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	for _, class := range "abcdefghijkl" {
		for _, sample := range "0123456789" {
			if err := os.WriteFile(filepath.Join(from, string(class)+string(sample)+".txt"), make([]byte, 4000), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, ok(t, append([]string{"pack", from, dir, "--chunk-size", "56KiB"}, args...)...)
}

// TestCommands_WarnOfUnevenPlans: pack, index, plan and explain warn of plans that mix sorted
// classes badly. The recommended option helps.
func TestCommands_WarnOfUnevenPlans(t *testing.T) {
	const warning = "stored sorted by class"
	dir, packed := sorted(t, "--batch-size", "16")
	if strings.Contains(packed.stderr, warning) {
		t.Errorf("pack with the default order: got %s, want no warning", packed.stderr)
	}
	url := gatewayFor(t, dir)
	for _, c := range []struct {
		args []string
		want string // expected in the advice; empty: no warning
	}{
		{[]string{"index", dir, "--chunk-size", "56KiB", "--batch-size", "32"}, ""},
		{[]string{"index", dir, "--chunk-size", "56KiB", "--batch-size", "32", "--window", "1"}, "'--window 8' brings that below 2"},
		{[]string{"index", dir, "--chunk-size", "56KiB", "--batch-size", "32", "--shuffle", "none"}, "'--shuffle slot'"},
		{[]string{"plan", dir, "--batch-size", "16", "--shuffle", "slot", "--window", "8"}, ""},
		{[]string{"plan", dir, "--batch-size", "16", "--shuffle", "window", "--window", "1"}, "'--window 16' brings that below 2"},
		{[]string{"explain", url, "--shuffle", "slot"}, ""},
		{[]string{"explain", url, "--shuffle", "none"}, "'--shuffle slot'"},
		{[]string{"explain", url, "--shuffle", "window", "--window", "2"}, "a '--window' above 2"},
	} {
		o := ok(t, c.args...)
		line, _, _ := strings.Cut(o.stderr, "\n")
		if strings.Contains(o.stderr, warning) != (c.want != "") || !strings.Contains(line, c.want) {
			t.Errorf("%q: got %q, want a warning that says %q", c.args, o.stderr, c.want)
		}
	}
	_, packed = sorted(t, "--batch-size", "16", "--window", "1")
	if !strings.Contains(packed.stderr, warning) {
		t.Errorf("pack --window 1: got %q, want a warning", packed.stderr)
	}
}

func TestPlan_CountsRequests(t *testing.T) {
	dir, _ := sorted(t, "--batch-size", "16", "--window", "4")
	var out struct{ Orders []orders.Row }
	if err := json.Unmarshal([]byte(ok(t, "plan", dir, "--cache-size", "1GiB,1", "--json").stdout), &out); err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Orders {
		chunks := uint64(10)
		want := map[string]uint64{"none": chunks, "window": chunks, "full": chunks, "slot": chunks}[o.Shuffle] // the cache holds all chunks
		if o.Shuffle == "slot" && o.Window < chunks {
			want += 2*o.Window - 1
		}
		if later := o.LaterReads; o.Reads > want || o.Reads < chunks || len(later) != 2 || later[0] == nil || *later[0] != 0 || o.Shuffle != "full" && later[1] != nil {
			t.Errorf("%s %d: got %d requests, later %v, want at most %d, then none, and null for the cache of a byte", o.Shuffle, o.Window, o.Reads, later, want)
		}
	}
	text := ok(t, "plan", dir, "--cache-size", "1GiB").stdout
	for _, want := range []string{"requests of first epoch, cache of 1.0 GiB", "later, cache of 1.0 GiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	if text := ok(t, "plan", dir).stdout; !strings.Contains(text, "requests an epoch") || strings.Contains(text, "cost") || strings.Contains(text, "later") {
		t.Errorf("got\n%s\nwant no caches and costs", text)
	}
}

// TestPlan_PricesEpochs computes the costs of an epoch from the results of simulate.
func TestPlan_PricesEpochs(t *testing.T) {
	dir, _ := sorted(t, "--batch-size", "16", "--window", "4")
	job := []string{dir, "--shuffle", "slot", "--window", "4", "--world-size", "4", "--rate", "1200/s", "--store-bandwidth", "1MB/s", "--cache-size", "1MiB,2MiB",
		"--gateways", "1,2", "--json"}
	type epoch struct {
		Seconds float64
		Reads   int64 `json:"store_reads"`
		Bytes   int64 `json:"store_bytes"`
		Ranks   []struct {
			Stall float64 `json:"stall_seconds"`
		}
	}
	type setting struct {
		Gateways int
		Cache    int64 `json:"cache_size"`
		Epochs   []epoch
	}
	var simulated struct{ Settings []setting }
	if err := json.Unmarshal([]byte(ok(t, append([]string{"simulate"}, job...)...).stdout), &simulated); err != nil {
		t.Fatal(err)
	}
	type amount struct {
		Costs map[string]float64
		Cost  float64
	}
	type row struct {
		Gateways int
		Cache    int64  `json:"cache_size"`
		First    amount `json:"first_epoch"`
		Later    amount `json:"later_epoch"`
	}
	var planned struct{ Costs struct{ Rows []row } }
	prices := append(append([]string{"plan"}, job...), "--prices", "requests=1e6,egress=1e9,gateway=3600", "--prices", "accelerator=7200")
	if err := json.Unmarshal([]byte(ok(t, prices...).stdout), &planned); err != nil {
		t.Fatal(err)
	}
	rows := planned.Costs.Rows
	if len(rows) != 4 || !slices.IsSortedFunc(rows, func(a, b row) int { return cmp.Compare(a.Later.Cost, b.Later.Cost) }) {
		t.Fatalf("got %+v, want two caches for each of two numbers of gateways, the cheapest later epoch first", planned)
	}
	for _, r := range rows {
		i := slices.IndexFunc(simulated.Settings, func(s setting) bool { return s.Gateways == r.Gateways && s.Cache == r.Cache })
		for n, got := range []amount{r.First, r.Later} {
			e := simulated.Settings[i].Epochs[n]
			waiting := 0.0
			for _, k := range e.Ranks {
				waiting += k.Stall
			}
			sum := 0.0
			for name, want := range map[string]float64{"requests": float64(e.Reads), "egress": float64(e.Bytes), "gateway": float64(r.Gateways) * e.Seconds, "accelerator": 2 * waiting} {
				if sum += want; math.Abs(got.Costs[name]-want) > 0.01 {
					t.Errorf("%d gateways, cache %d, epoch %d: got %v for %s, want %v", r.Gateways, r.Cache, n, got.Costs[name], name, want)
				}
			}
			if first := n == 0; math.Abs(got.Cost-sum) > 0.01 || (e.Reads > 0) != first {
				t.Errorf("%d gateways, cache %d, epoch %d: got %+v and %d reads, want %v, and reads in the first epoch only", r.Gateways, r.Cache, n, got, e.Reads, sum)
			}
		}
	}
}

func TestPlan_MarksCachesSmallerThanTheOrderRequires(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), bytes.Repeat(append(bytes.Repeat([]byte("1"), 999), '\n'), 3000), 0o644); err != nil {
		t.Fatal(err)
	}
	ok(t, "index", dir, "--chunk-size", "64KiB", "--batch-size", "16", "--window", "64")
	for _, name := range []string{"slot", "full", "none"} {
		args := []string{dir, "--shuffle", name, "--rate", "1200/s", "--cache-size", "1MiB,64MiB"}
		warned := strings.Contains(ok(t, append([]string{"simulate"}, args...)...).stdout, "Warning: a cache of 1MiB is smaller")
		var marked []string
		for line := range strings.Lines(ok(t, append([]string{"plan", "--prices", "egress=1"}, args...)...).stdout) {
			if strings.Contains(line, "cache too small") {
				marked = append(marked, line)
			}
		}
		if warned != (len(marked) == 1) || warned != (name == "slot") || warned && !strings.Contains(marked[0], "1MiB") {
			t.Errorf("%s: simulate warns: %v, plan marks %q", name, warned, marked)
		}
	}
}

func TestPlan_RejectsIncompletePrices(t *testing.T) {
	dir := shards(t)
	for want, args := range map[string][]string{
		`--prices "egres=1": unknown resource "egres": must be one of requests, egress, gateway, accelerator`: {"--prices", "gateway=1,egres=1"},
		`--prices "egress": must be RESOURCE=PRICE, such as egress=0.09`:                                      {"--prices", "egress"},
		`--prices "egress=-1": the price of a GB (10^9 bytes) from the store must be a number from 0 to 1e9`:  {"--prices", "egress=-1"},
		"egress has two prices":             {"--prices", "egress=1,egress=2"},
		"--prices requires --rate":          {"--prices", "egress=1", "--cache-size", "1GiB"},
		"--prices requires --cache-size":    {"--prices", "egress=1", "--rate", "1"},
		"--prices accepts one --world-size": {"--prices", "egress=1", "--world-size", "1,2"},
		"--rate requires --prices":          {"--rate", "1"},
		`rate "3000/min": must be a number from 0 to 1e+12, with or without "/s"`: {"--prices", "egress=1", "--cache-size", "1GiB", "--rate", "3000/min"},
		`link "10": must be bytes per second such as 2GB/s`:                       {"--prices", "egress=1", "--cache-size", "1GiB", "--rate", "1", "--link", "10"},
		"2 gateways for 1 ranks": {"--prices", "egress=1", "--rate", "1", "--cache-size", "1GiB", "--gateways", "2"},
		"must be at least 1 MiB": {"--prices", "egress=1", "--rate", "1", "--cache-size", "1"},
	} {
		if o := millrace(t, nil, append([]string{"plan", dir}, args...)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %q, want 2 and %q", args, o.code, o.stderr, want)
		}
	}
	for _, args := range [][]string{{"--prices", "egres=1", "--rate", "1"}, {"--prices", "egress=1", "--rate", "1/min"}, {"--prices", "egress=1", "--rate", "1", "--cache-size", "x"}} {
		o := millrace(t, nil, append([]string{"plan", dir, "--cache-size", "1GiB", "--gateways", "1"}, args...)...)
		if o.code != exitUsage || strings.Contains(o.stderr, "requires") {
			t.Errorf("%v: got exit code %d and %q, want only the fault of the value", args, o.code, o.stderr)
		}
	}
}

func TestPlan_ReportsSamplesMovedByLocality(t *testing.T) {
	dir, _ := sorted(t, "--batch-size", "16", "--window", "8")
	var out struct {
		Locality struct {
			Shuffle string
			Shares  []orders.Sharing
		}
	}
	o := ok(t, "plan", dir, "--batch-size", "32", "--world-size", "6,8", "--homes", "1,4,8", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil {
		t.Fatal(err)
	}
	rows := out.Locality.Shares
	if out.Locality.Shuffle != "slot" || len(rows) != 6 {
		t.Fatalf("got %+v, want six rows of the slot order", out.Locality)
	}
	for _, r := range rows {
		switch possible := r.Homes <= r.WorldSize; {
		case possible == (r.Fault != "") || possible && r.Variance == nil:
			t.Errorf("%d ranks, %d homes: got %+v, want figures where there is a rank for each home", r.WorldSize, r.Homes, r)
		case possible && (r.Moved == 0) != (r.Homes == 1 || r.WorldSize == 8):
			t.Errorf("%d ranks, %d homes: got %v moved, want none where homes divide the lanes and ranks the batch", r.WorldSize, r.Homes, r.Moved)
		}
	}
	if *rows[5].Variance <= 2 || !strings.Contains(o.stderr, "fewer homes mix it better") {
		t.Errorf("eight homes: got %v and %q, want a warning of what ranks alone see", *rows[5].Variance, o.stderr)
	}
	if text := ok(t, "plan", dir, "--world-size", "4").stdout; !strings.Contains(text, "nothing") || !strings.Contains(text, "shared by locality, shuffle slot 8") {
		t.Errorf("got\n%s\nwant a row that moves nothing", text)
	}
	text := ok(t, "plan", dir, "--world-size", "4", "--shuffle", "window", "--window", "8", "--strata", "4").stdout
	if !strings.Contains(text, "8 in 4 strata") || !strings.Contains(text, "%") {
		t.Errorf("got\n%s\nwant what strata move", text)
	}
}

func TestPlan_CountsRepeatedReadsOfTakeovers(t *testing.T) {
	dir, _ := sorted(t, "--batch-size", "16", "--window", "8")
	var out struct {
		Chunks   int
		Bytes    int64
		Locality struct{ Takeovers []orders.Takeover }
	}
	o := ok(t, "plan", dir, "--batch-size", "32", "--world-size", "8", "--homes", "4,16", "--gateways", "3,4,8", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil {
		t.Fatal(err)
	}
	rows := out.Locality.Takeovers
	if len(rows) != 3 {
		t.Fatalf("got %+v, want a row for each number of gateways of the sharing that is possible", rows)
	}
	for i, least := range []float64{0.5, 0, 1} { // of ranks 0 to 7: with three gateways 2, 4, 6 and 7 move, with eight all but 0
		r := rows[i]
		if (r.Chunks == 0) != (least == 0) || r.Share < least || r.Chunks > 2*out.Chunks || r.Bytes > 2*out.Bytes {
			t.Errorf("got %+v, want %v of the data at least, and nothing where nothing changes", r, least)
		}
	}
	text := ok(t, "plan", dir, "--world-size", "8", "--homes", "4", "--gateways", "3").stdout
	if !strings.Contains(text, "read once more") || !strings.Contains(text, "8       4       3 ") {
		t.Errorf("got\n%s\nwant a table of what is read once more", text)
	}
	for want, args := range map[string][]string{
		"--gateways requires --world-size": {dir, "--gateways", "3"},
		"at most --world-size, 2":          {dir, "--world-size", "2", "--gateways", "2,3"},
		"plan compares the orders of a dataset: run 'millrace explain http://127.0.0.1:1'": {"http://127.0.0.1:1", "--gateways", "3"},
		"must divide the window, 8": {dir, "--shuffle", "window", "--strata", "3"},
		"no meaning for shuffle":    {dir, "--shuffle", "none", "--window", "3"},
		"unknown flag: --seed":      {dir, "--seed", "3"},
	} {
		if o := millrace(t, nil, append([]string{"plan"}, args...)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %q, want 2 and %q", args, o.code, o.stderr, want)
		}
	}
}

// TestPlan_WindowAddsRows: --window adds rows even if the dataset's own order has no window.
func TestPlan_WindowAddsRows(t *testing.T) {
	dir, _ := sorted(t, "--batch-size", "16", "--shuffle", "full")
	if text := ok(t, "plan", dir, "--window", "5").stdout; !strings.Contains(text, "slot      5 ") || !strings.Contains(text, "window    5 ") {
		t.Errorf("got\n%s\nwant rows of window 5", text)
	}
}

// TestPlan_ReportsLastRowBelow64Rows: plan and explain report the last, incomplete row of an order
// with fewer than 64 rows.
func TestPlan_ReportsLastRowBelow64Rows(t *testing.T) {
	for lines, stated := range map[int]bool{62*8 + 3: true, 63*8 + 3: false} { // 62 and 63 full rows of eight lanes, and an incomplete one
		dir := write(t, map[string]string{"a.jsonl": strings.Repeat("{}\n", lines)})
		ok(t, "index", dir, "--window", "8", "--batch-size", "16")
		for command, from := range map[string]string{"plan": dir, "explain": gatewayFor(t, dir)} {
			o := ok(t, command, from)
			want := "millrace: shuffle slot 8 has 63 rows, the last of 3 longer lanes: the 310 samples of the other lanes never stand there; tail=drop leaves out 3 samples an epoch, never one of these\n"
			if strings.Contains(o.stderr, want) != stated || strings.Contains(o.stderr, "rows") != stated {
				t.Errorf("%d samples, plan %s: got %q, want the last row stated: %t", lines, from, o.stderr, stated)
			}
		}
	}
}

// TestPlan_ComparesWorkOfRanks compares the work of two ranks with figures computed by hand, once by
// a cost table and once by stored lengths, which are as many blocks of 512 bytes.
func TestPlan_ComparesWorkOfRanks(t *testing.T) {
	const repeated = 64
	pattern := []uint32{3, 3, 1, 1, 0, 2, 2, 4} // two batches, which are repeated
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	for i := range repeated * len(pattern) {
		blocks := max(pattern[i%len(pattern)], 1) - 1 // after a header of 512 bytes
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("%04d.txt", i)), make([]byte, 512*blocks), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "pack", from, dir, "--chunk-size", "56KiB", "--batch-size", "4", "--shuffle", "none")
	l, err := location.Parse(dir)
	if err != nil {
		t.Fatal(err)
	}
	var stores location.Stores
	d, err := stores.OpenIndex(t.Context(), l, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	st, err := d.Selections()
	if err != nil {
		t.Fatal(err)
	}
	costs := slices.Repeat(pattern, repeated)
	digest, _, err := st.WriteCosts(t.Context(), d.Index.Generation(), d.Index.Samples(), func(yield func([]uint32, error) bool) { yield(costs, nil) })
	if err == nil {
		err = st.NameCosts(t.Context(), d.Index.Generation(), "tokens", digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, balance := range []string{"cost:tokens", "cost:" + digest, "bytes"} {
		var out struct{ Work orders.Work }
		if err := json.Unmarshal([]byte(ok(t, "plan", dir, "--balance", balance, "--bucket", "2", "--world-size", "2", "--json").stdout), &out); err != nil {
			t.Fatal(err)
		}
		variance, wide := 0.0563, 2.7606
		want := []orders.Division{
			{WorldSize: 2, Balance: "samples", Bucket: 1, Time: 1.4118, Worst: 1.5, Padding: 0.15, Variance: &variance},
			{WorldSize: 2, Balance: balance, Bucket: 1, Time: 1.0588, Worst: 1.1111, Padding: 0.2917, Variance: &variance},
			{WorldSize: 2, Balance: balance, Bucket: 2, Time: 1.0588, Worst: 1.2, Padding: 0.15, Variance: &wide},
		}
		if w := out.Work; w.Balance != balance || w.Batches != 2*repeated || w.Of != 2*repeated || !reflect.DeepEqual(w.Shares, want) {
			t.Errorf("%s: got %+v, want %+v", balance, w, want)
		}
	}
	text := ok(t, "plan", dir, "--balance", "cost:tokens", "--world-size", "2,3").stdout
	for _, want := range []string{"work of ranks, cost tokens, shuffle none, 128 of 128 whole batches:", "2       cost:tokens   1        1.059        1.111        29.2 %    0.06"} {
		if !strings.Contains(text, want) || strings.Count(text, "cost:tokens") != 2 {
			t.Errorf("got\n%s\nwant %q in it, and two rows by cost", text, want)
		}
	}
	for wrong, want := range map[string]string{
		"--balance bytes --bucket 1000000": "exceeds 1048576 samples", "--balance bytes --batch-size 1000": "larger than the dataset", "--balance cost:pixels": "no cost table pixels: create it with 'millrace cost'",
	} {
		o := millrace(t, nil, append([]string{"plan", dir, "--world-size", "2"}, strings.Fields(wrong)...)...)
		if o.code == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: got exit code %d and %s, want %q", wrong, o.code, o.stderr, want)
		}
	}
}
