package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSimulate_CombinesListsOfSettings(t *testing.T) {
	o := ok(t, "simulate", shards(t), "--rate", "500/s", "--batch-size", "4", "--window", "2", "--cache-size", "64MiB,128MiB",
		"--cache-policy", "lru,plan", "--store-bandwidth", "100MB/s", "--gateways", "1,2", "--world-size", "2", "--json")
	var got struct {
		Settings []struct {
			CacheSize int64 `json:"cache_size"`
			Epochs    []struct {
				Seconds float64            `json:"seconds"`
				Store   int64              `json:"store_bytes"`
				Tiers   map[string]float64 `json:"tiers"`
				Ranks   []struct{}         `json:"ranks"`
			} `json:"epochs"`
		} `json:"settings"`
		Advice []string `json:"advice"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Settings) != 8 || len(got.Advice) == 0 {
		t.Fatalf("got %d settings and %d lines of advice, want 8 and some", len(got.Settings), len(got.Advice))
	}
	for _, s := range got.Settings {
		if len(s.Epochs) != 2 || len(s.Epochs[0].Ranks) != 2 || s.Epochs[0].Store == 0 || s.Epochs[1].Store != 0 || s.Epochs[1].Tiers["memory"] != 1 {
			t.Errorf("got %+v, want two epochs of two ranks, the second one out of memory", s)
		}
	}
}

func TestSimulate_RejectsInvalidSettings(t *testing.T) {
	numbers := []string{"simulate", "--samples", "1e5", "--rate", "1000/s", "--cache-size", "1GiB"}
	for want, args := range map[string][]string{
		"a dataset is required, or --samples": {"simulate", "--rate", "1", "--cache-size", "1GiB"},
		"has its own number of samples":       append([]string{"simulate", "/x"}, numbers[1:]...),
		"is one too many":                     {"simulate", "/x", "/y", "--rate", "1", "--cache-size", "1GiB"},
		"--rate":                              append(numbers, "--rate", "0"),
		"must be one of plan, lru":            append(numbers, "--cache-policy", "plan,fifo"),
		"has no meaning for shuffle":          append(numbers, "--shuffle", "full", "--window", "5"),
		"must divide the window, 5":           append(numbers, "--shuffle", "window", "--window", "5", "--strata", "2"),
		"--skew":                              append(numbers, "--skew", "0.5"),
		"a disk cache":                        append(numbers, "--disk-cache-size", "1GiB", "--disk-bandwidth", "0"),
		"is too small":                        append(numbers, "--cache-size", "100MiB"),
		"2000 combinations":                   append(numbers, "--gateways", strings.Repeat("1,", 1999)+"1"),
		"a chunk must have at most 1 GiB":     append(numbers, "--chunk-samples", "1e8"),
		"--samples":                           append(numbers, "--samples", "1.5"),
		"--store-bandwidth":                   append(numbers, "--store-bandwidth", "fast"),
	} {
		o := millrace(t, nil, args...)
		if o.code != exitUsage || !strings.Contains(o.stderr, want) || o.stdout != "" {
			t.Errorf("%v: got exit code %d and %q, want 2 and %q", args, o.code, o.stderr, want)
		}
	}
}

func TestSimulate_PrintsTable(t *testing.T) {
	o := ok(t, "simulate", "--samples", "20000", "--chunk-samples", "100", "--sample-size", "4KiB", "--rate", "10000/s", "--window", "8",
		"--cache-size", "24MiB,48MiB", "--cache-policy", "lru,plan", "--store-bandwidth", "20MB/s")
	for _, want := range []string{"20,000 samples in 200 chunks", "slot 8 order", "24MiB", "48MiB", "\nWith a cache of", "\nPolicy: "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("got\n%s\nwant %q in it", o.stdout, want)
		}
	}
}

func TestSimulate_Fleet(t *testing.T) {
	args := []string{
		"simulate", "--samples", "20000", "--chunk-samples", "100", "--sample-size", "4KiB", "--rate", "100000/s", "--window", "32", "--world-size", "6",
		"--cache-size", "48MiB", "--gateways", "1,4", "--link", "1Gbit/s", "--store-bandwidth", "20MB/s", "--share", "locality",
	}
	o := ok(t, append(args, "--json")...)
	var got struct {
		Settings []struct {
			Gateways int
			Cluster  bool
			Moved    float64 `json:"moved_share"`
			Epochs   []struct {
				Seconds float64
				Peers   int64 `json:"peer_bytes"`
				Store   int64 `json:"store_bytes"`
				Bounds  map[string]float64
			}
		}
		Advice []string
	}
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil {
		t.Fatal(err)
	}
	one, four := got.Settings[0], got.Settings[1]
	if one.Cluster || one.Epochs[1].Store == 0 || one.Epochs[1].Peers != 0 {
		t.Errorf("one gateway: got %+v, want no cluster, and reads of the store in each epoch", one)
	}
	if !four.Cluster || four.Epochs[1].Store != 0 || four.Epochs[1].Peers == 0 || four.Epochs[1].Bounds["link"] == 0 || four.Moved == 0 {
		t.Errorf("four gateways: got %+v, want one cache that holds all", four)
	}
	o = ok(t, args...)
	for _, want := range []string{"shared by locality", "busiest link", "Gateways: 4 instead of 1 help", "They are one cache"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("got\n%s\nwant %q in it", o.stdout, want)
		}
	}
	o = ok(t, append(args[:len(args)-2], "--no-cluster")...)
	if !strings.Contains(o.stdout, "Each has its own cache") || strings.Contains(o.stdout, "busiest link") {
		t.Errorf("got\n%s\nwant gateways that share nothing, not even homes", o.stdout)
	}
	for want, more := range map[string][]string{
		"share locality":       {"--share", "locality", "--world-size", "33"},
		"1001 gateways":        {"--gateways", "1001", "--world-size", "1001", "--batch-size", "2002"},
		"such as 100Gbit/s":    {"--link", "fast"},
		"must be 1 to 10000":   {"--world-size", "10001", "--batch-size", "20002"},
		"contiguous, locality": {"--share", "near"},
	} {
		if o := millrace(t, nil, append(args[:len(args)-2:len(args)-2], more...)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %q, want 2 and %q", more, o.code, o.stderr, want)
		}
	}
}
