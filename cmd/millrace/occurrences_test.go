package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/occurrences"
)

// TestOccurrences_SameFromGatewayAndIndex: a gateway and the index give the same result. If the
// generation of the index is no longer current, the output says so.
func TestOccurrences_SameFromGatewayAndIndex(t *testing.T) {
	dir := shards(t)
	ok(t, "subset", dir, "--into", "train=3,val=1")
	gateway := gatewayFor(t, dir)
	said := map[string]string{}
	for _, plan := range []string{"world_size=3&rank=1&format=framed", "world_size=3&balance=bytes&tail=pad", "shuffle=slot&window=4&share=locality&world_size=2", "subset=val", "seed=9&fields=txt"} {
		resp, err := http.Head(gateway + "/epoch/2/batch/1?" + plan)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		batch := resp.Header.Get("Content-Location")
		if resp.StatusCode != http.StatusOK || batch == "" {
			t.Fatalf("%s: got status %d and no Content-Location", plan, resp.StatusCode)
		}
		args := []string{"--key", "f007", "--epochs", "0-9", "--json"}
		asked := ok(t, append([]string{"occurrences", gateway + batch}, args...)...).stdout
		found := ok(t, append([]string{"occurrences", batch, "--offline", dir}, args...)...).stdout
		var answer occurrences.Answer
		if err := json.Unmarshal([]byte(asked), &answer); err != nil || asked != found {
			t.Errorf("%s: got %s\nfrom the index, want what the gateway says: %s", plan, found, asked)
		}
		if n := len(answer.Occurrences); n < 10 || answer.Occurrences[n-1].Epoch != 9 || answer.Occurrences[n-1].Rank == nil { // a padded batch may contain the sample twice
			t.Errorf("%s: got %s, want the sample and its rank in each epoch", plan, asked)
		}
		said[batch] = found
	}
	args := []string{"--key", "f007", "--epochs", "0-9", "--json"}
	want := ok(t, append([]string{"occurrences", gateway + "/epoch/0/batch/0?generation=" + read[client.Dataset](t, "info", dir).Generation}, args...)...).stdout
	for _, address := range []string{gateway, gateway + "/files", strings.TrimPrefix(gateway, "http://")} {
		if got := ok(t, append([]string{"occurrences", address}, args...)...).stdout; got != want {
			t.Errorf("%s: got %s, want the occurrences of the default plan: %s", address, got, want)
		}
	}
	ok(t, "index", dir, "--chunk-size", "32KiB")
	for batch, want := range said {
		if got := ok(t, "occurrences", batch, "--offline", dir, "--key", "f007", "--epochs", "0-9", "--json").stdout; got != want {
			t.Errorf("%s: got %s from the older generation, want %s", batch, got, want)
		}
	}
	ok(t, "gc", dir, "--grace", "0s", "--yes")
	for batch := range said {
		o := millrace(t, nil, "occurrences", batch, "--offline", dir, "--key", "f007", "--epochs", "0")
		if o.code != exitNotFound || !strings.Contains(o.stderr, "is not stored at") {
			t.Errorf("got exit code %d and %s, want 4: the generation is gone", o.code, o.stderr)
		}
	}
}

func TestOccurrences_NamesMissingArguments(t *testing.T) {
	generation := strings.Repeat("ab", 32)
	batch := "http://127.0.0.1:1/epoch/0/batch/3?generation=" + generation
	for want, args := range map[string][]string{
		"must be GATEWAY/NAME or the URL":              {"http://127.0.0.1:1/v1/stats", "--key", "k", "--epochs", "0"},
		"the URL has no generation":                    {"http://127.0.0.1:1/epoch/0/batch/3", "--key", "k", "--epochs", "0"},
		"--offline requires the URL":                   {"http://127.0.0.1:1/photos", "--key", "k", "--epochs", "0", "--offline", "/"},
		"occurrences: --epochs N-N is required\n":      {batch, "--key", "k"},
		"occurrences: --key KEY is required\n":         {batch, "--epochs", "0"},
		"add it, or --offline":                         {strings.TrimPrefix(batch, "http://127.0.0.1:1"), "--key", "k", "--epochs", "0"},
		"expected GATEWAY[/NAME]|URL, got no argument": {"--key", "k"},
	} {
		o := millrace(t, nil, append([]string{"occurrences"}, args...)...)
		if o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %s, want 2 and %q", args, o.code, o.stderr, want)
		}
	}
	dir := shards(t)
	var info client.Dataset
	if err := json.Unmarshal([]byte(ok(t, "info", dir, "--json").stdout), &info); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no sample has the key nosuch":      {"--key", "nosuch", "--epochs", "0"},
		"the last epoch is below the first": {"--key", "f007", "--epochs", "3-2"},
		"at most 1000 epochs at a time":     {"--key", "f007", "--epochs", "0-1000"},
	} {
		o := millrace(t, nil, append([]string{"occurrences", "/epoch/0/batch/3?generation=" + info.Generation, "--offline", dir}, args...)...)
		if o.code == exitOK || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %s, want %q", args, o.code, o.stderr, want)
		}
	}
}

// TestOccurrences_OfMixtureWithSchedule stores a schedule, and finds a sample of the first source
// before and after the schedule omits the source.
func TestOccurrences_OfMixtureWithSchedule(t *testing.T) {
	gateway := gatewayFor(t, shards(t))
	c, err := client.New(client.Config{Gateways: []string{gateway}})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := c.KeepSchedule(t.Context(), "files", [][]uint64{{1000, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	name := "mix:files:1,files(subset=samples:0-2):1,samples=500,schedule=" + digest
	resp, err := http.Head(gateway + "/v1/datasets/" + name + "/epochs/0/batches/0?batch_size=10")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	var answer occurrences.Answer
	if err := json.Unmarshal([]byte(ok(t, "occurrences", gateway+resp.Header.Get("Content-Location"), "--key", "f007", "--epochs", "0-3", "--json").stdout), &answer); err != nil {
		t.Fatal(err)
	}
	for _, o := range answer.Occurrences {
		if o.Epoch > 1 {
			t.Errorf("got %+v, want no occurrence after position 1000", o)
		}
	}
	if len(answer.Occurrences) < 2 {
		t.Errorf("got %+v, want occurrences in the epochs 0 and 1", answer.Occurrences)
	}
}
