package address

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseURL_ReadsAddresses(t *testing.T) {
	d := photos()
	for address, want := range map[string]struct {
		epoch, number uint64
		hasBatch      bool
	}{
		"/v1/datasets/photos/epochs/3/batches/5?":                             {3, 5, true},
		"/v1/datasets/photos/epochs/3/batches/5/manifest?":                    {3, 5, true},
		"/v1/datasets/photos/epochs/18446744073709551615?":                    {1<<64 - 1, 0, false},
		"/v1/datasets/photos/epochs/3/batches/18446744073709551615?":          {3, 1<<64 - 1, true},
		"https://gateway.example:8080/v1/datasets/photos/epochs/3/batches/5?": {3, 5, true},
		"/epoch/3/batch/5?": {3, 5, true},
		"http://gateway.example/epoch/3/batch/5/manifest?": {3, 5, true},
	} {
		q := &Query{}
		b, hasBatch, err := ParseURL(d, true, address+"seed=9&generation="+generation, q)
		if err != nil || q.Err() != nil || hasBatch != want.hasBatch || b.Epoch != want.epoch || b.Number != want.number || b.Params.Seed != 9 || !b.Pinned {
			t.Errorf("%s: got %+v, batch %t, %v, %v", address, b, hasBatch, err, q.Err())
		}
	}
}

// ParseURL returns the same batch for the URL that the batch writes.
func TestParseURL_ReadsWhatBatchesWrite(t *testing.T) {
	d := photos()
	b, err := decode(d, "world_size=4&rank=2&balance=bytes&seed=3&fields=cls", "6", "11")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{b.URL(Body, 11), b.URL(Manifest, 11), "http://a" + b.URL(Body, 11), b.EpochURL(6)} {
		q := &Query{}
		got, hasBatch, err := ParseURL(d, false, address, q)
		if err != nil || q.Err() != nil {
			t.Fatalf("%s: %v, %v", address, err, q.Err())
		}
		if !hasBatch {
			got.Number = 11
		}
		if got.Canonical() != b.Canonical() || got.URL(Body, 11) != b.URL(Body, 11) || got.Epoch != 6 || got.ETag() != b.ETag() {
			t.Errorf("%s: got %+v, want %+v", address, got, b)
		}
	}
}

func TestParseURL_RefusesAddresses(t *testing.T) {
	const other = "url: must be the URL of an epoch or a batch of dataset photos"
	of := "generation=" + generation
	for _, c := range []struct{ address, want string }{
		{"", "url: missing"},
		{"/", other},
		{"x", other},
		{"http://gateway.example", other},
		{"/v1/datasets/texts/epochs/3/batches/5?" + of, other},
		{"/v1/datasets/photos/epochs/3/batches?" + of, other},
		{"/v1/datasets/photos/epochs/3/batches/5/6?" + of, other},
		{"/v1/datasets/photos/epochs/3/samples?" + of, other},
		{"/v1/datasets/photos/epochs?" + of, other},
		{"/v2/datasets/photos/epochs/3?" + of, other},
		{"/v1/sets/photos/epochs/3?" + of, other},
		{"/v1/datasets/photos/epoch/3?" + of, other},
		{"/v1/datasets/photos/epochs/3/batch/5?" + of, other},
		{"/epochs/3/batch/5?" + of, other},
		{"/epoch/3/batches/5?" + of, other},
		{"/epoch/3/batch/5/6?" + of, other},
		{"/v1/datasets/photos/epochs/3", "url.generation: missing: copy it from the Content-Location of a response"},
		{"/v1/datasets/photos/epochs/x?" + of, "url.epoch: must be an unsigned decimal number, with digits only"},
		{"/v1/datasets/photos/epochs/3/batches/?" + of, "url.batch: empty"},
		{"/v1/datasets/photos/epochs/3/batches/18446744073709551616?" + of, "url.batch: must be below 2^64"},
		{"/v1/datasets/photos/epochs/3?generation=x", "url.generation: must be 64 hexadecimal digits in lower case, or the first 32 of them"},
		{"/v1/datasets/photos/epochs/3?at=3&" + of, "url.at: unknown parameter"},
		{"/v1/datasets/photos/epochs/3?subset=train&" + of, "url: has a subset or a quarantine: losses are accepted only for plans of all samples"},
		{"/v1/datasets/photos/epochs/3?quarantine=samples:7&" + of, "url: has a subset or a quarantine: losses are accepted only for plans of all samples"},
		{"/epoch/x/batch/y?seed=z", "url.seed: must be an unsigned decimal number, with digits only; url.epoch: must be an unsigned decimal number, with digits only; " +
			"url.batch: must be an unsigned decimal number, with digits only; url.generation: missing: copy it from the Content-Location of a response"},
	} {
		q := &Query{}
		if _, _, err := ParseURL(photos(), true, c.address, q); err != nil {
			t.Errorf("%s: got %v besides the faults", c.address, err)
		}
		if got := refused(t, q.Err()); got != c.want {
			t.Errorf("%s: got %q, want %q", c.address, got, c.want)
		}
	}
	q := &Query{}
	if _, _, err := ParseURL(photos(), false, "/epoch/3/batch/5?"+of, q); err != nil || refused(t, q.Err()) != other {
		t.Errorf("a short path where another dataset is the default one: got %v, %v, want %q", err, q.Err(), other)
	}
}

// A generation that is not served is not an invalid URL: the response has another status.
func TestParseURL_TellsOfAnotherGeneration(t *testing.T) {
	q := &Query{}
	_, hasBatch, err := ParseURL(photos(), false, "/v1/datasets/photos/epochs/3/batches/5?generation="+digest, q)
	var r *Refusal
	if !errors.As(err, &r) || r.Kind != NotFound || q.Err() != nil || !hasBatch {
		t.Fatalf("got %v, %v, batch %t, want a refusal as not found", err, q.Err(), hasBatch)
	}
	if want := "generation " + digest + " of dataset photos is not served; the current one is " + generation; r.Detail != want {
		t.Errorf("got %q, want %q", r.Detail, want)
	}
}

func TestDatasetOf(t *testing.T) {
	for address, want := range map[string][3]string{
		"/v1/datasets/photos/epochs/3/batches/5/manifest?a=b?c": {"photos", "a=b?c", "yes"},
		"https://host/v1/datasets/photos/epochs/3":              {"photos", "", "yes"},
		"https://host/epoch/3/batch/5?a=b":                      {"", "a=b", "yes"},
		"https://host":                                          {"", "", "no"},
		"/v1/datasets/photos?a=b":                               {"", "a=b", "no"},
	} {
		name, query, ok := DatasetOf(address)
		if got := [3]string{name, query, map[bool]string{true: "yes", false: "no"}[ok]}; got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

func TestParseMixture_HasOneName(t *testing.T) {
	for text, want := range map[string]string{
		"mix:a:1":                     "mix:a:1",
		"mix:a:6,b:4":                 "mix:a:3,b:2",
		"mix:a:6,b:4,per-batch":       "mix:a:6,b:4,per-batch",
		"mix:per-batch,samples=9,a:4": "mix:a:4,samples=9,per-batch",
		"mix:schedule=" + digest + ",samples=9,a:4,b:0,c:6":         "mix:a:2,b:0,c:3,samples=9,schedule=" + digest,
		"mix:a:4294967296,b:4294967296,samples=4611686018427387904": "mix:a:1,b:1,samples=4611686018427387904",
		"mix:a(subset=x=2,y=4:x):1,a(subset=x=2,y=4:y):1":           "mix:a(subset=x=1,y=2:x):1,a(subset=x=1,y=2:y):1",
		"mix:a(subset=samples%3A0-9&quarantine=samples:1,2):3,a:3":  "mix:a(quarantine=samples:1-2&subset=samples:0-9):1,a:1",
		"mix:a(subset=" + digest + ":train):1":                      "mix:a(subset=" + digest + ":train):1",
		"mix:a(quarantine=" + digest + "):1":                        "mix:a(quarantine=" + digest + "):1",
	} {
		m, err := ParseMixture(text)
		if got := m.Name(); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
			continue
		}
		if again, err := ParseMixture(want); err != nil || again.Name() != want {
			t.Errorf("%s: read again it is %s, %v", want, again.Name(), err)
		}
		if !IsMixture(text) || !IsMixture(want) {
			t.Errorf("%s is not taken as a mixture", text)
		}
	}
}

func TestParseMixture_Refuses(t *testing.T) {
	many := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf("a%d:1", i)
		}
		return "mix:" + strings.Join(parts, ",")
	}
	if _, err := ParseMixture(many(64)); err != nil {
		t.Errorf("64 sources: %v", err)
	}
	if _, err := ParseMixture("mix:" + strings.Repeat("a", 4092)); refused(t, err) == "dataset: the mixture has more than 4096 bytes" {
		t.Error("4096 bytes are taken for more")
	}
	for _, c := range []struct{ text, want string }{
		{"mix:", "dataset: : must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a", "dataset: a: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:0", "dataset: a:0: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:01", "dataset: a:01: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:-1", "dataset: a:-1: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:4294967297", "dataset: a:4294967297: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:1,samples=3,schedule=x", "dataset: schedule=x: must be the digest of one stored schedule"},
		{"mix:a:1,schedule=" + digest, "dataset: a schedule requires samples=N, because its positions count over epochs of a fixed length"},
		{"mix:a:1,samples=3,per-batch,schedule=" + digest, "dataset: a schedule requires weights: per-batch sets fixed counts"},
		{"mix:samples=3", "dataset: the mixture has 0 sources: must have 1 to 64"},
		{"mix:a:1,samples=0", "dataset: must be at least 1"},
		{"mix:a:1,samples=4611686018427387905", "dataset: must be at most 4611686018427387904"},
		{"mix:a:1,samples=3,samples=3", "dataset: samples=3: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:1,per-batch,per-batch", "dataset: per-batch: must be SOURCE:SHARE, with a whole number from 1 to 4294967296"},
		{"mix:a:1,a:2", "dataset: source a is given twice"},
		{"mix:a(quarantine=samples:1,2):1,a(quarantine=samples:1-2):1", "dataset: source a is given twice"},
		{"mix:a/b:1", "dataset: a/b:1: must have a dataset name, or NAME(subset=...&quarantine=...), before the share"},
		{"mix:a():1", "dataset: a: query: must have parameters between parentheses"},
		{"mix:a(subset=x=1:x:1", "dataset: a: query: must have parameters between parentheses"},
		{"mix:a(seed=1):1", "dataset: a: seed: unknown parameter"},
		{"mix:a(subset=train):1", "dataset: a: subset: must contain the split itself, such as train=9,val=1:train, or its digest: another gateway may have another default split"},
		{"mix:a(subset=a/b):1", "dataset: a: subset: a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"mix:a(quarantine=x):1", "dataset: a: quarantine: must be 64 hexadecimal digits in lower case, or samples: and the numbers of samples, such as samples:7,300-309"},
		{many(65), "dataset: the mixture has 65 sources: must have 1 to 64"},
		{"mix:" + strings.Repeat("a", 4093), "dataset: the mixture has more than 4096 bytes"},
	} {
		_, err := ParseMixture(c.text)
		if got := refused(t, err); got != c.want {
			t.Errorf("%.99s: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestMixture_Generations(t *testing.T) {
	if got := PlainCommas("a%2Cb%2cc,d"); got != "a,b,c,d" {
		t.Errorf("got %s, want the commas", got)
	}
	d := photos()
	d.Name, d.Generation = "mix:a:1,b:1", digest+","+generation
	if _, err := decode(d, "generation="+digest+"%2c"+generation, "0", "0"); err != nil {
		t.Errorf("the generations in their order: %v", err)
	}
	const want = "generation: must list the generations of the sources in order, separated by commas"
	if _, err := decode(d, "generation="+generation+","+digest, "0", "0"); refused(t, err) != want {
		t.Errorf("in another order: got %v, want %s", err, want)
	}
}
