package address

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

var (
	generation = strings.Repeat("0a", 32)
	digest     = strings.Repeat("b1", 32)
)

// photos returns a dataset of tar samples that is also available as JSON and as a table.
func photos() Dataset {
	return Dataset{
		Name: "photos", Generation: generation,
		Defaults: chunkindex.Defaults{Shuffle: shuffle.Slot, Window: 4, Seed: 7, BatchSize: 16, Tail: "short"},
		Forms: []Form{
			{Name: "tar", ContentType: "application/x-tar", Native: true, Fields: true},
			{Name: "raw", ContentType: "application/octet-stream", Also: "application/raw", Table: true},
			{Name: "json", ContentType: "application/json", Fields: true},
		},
	}
}

// decode decodes a query as a batch of the dataset, like the gateway does.
func decode(d Dataset, raw, epoch, batch string) (Batch, error) {
	q := ParseQuery(raw, BatchNames()...)
	b := DecodeBatch(q, d, epoch, batch)
	return b, d.Check(q)
}

// refused returns the text of a refusal, which must have the kind Invalid and list its faults.
func refused(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "accepted"
	}
	var r *Refusal
	if !errors.As(err, &r) || r.Kind != Invalid {
		return fmt.Sprintf("%T of another kind: %v", err, err)
	}
	var faults []string
	for _, f := range r.Faults {
		faults = append(faults, f.Name+": "+f.Reason)
	}
	if text := strings.Join(faults, "; "); text != r.Detail || text != err.Error() {
		t.Errorf("got faults %q, detail %q and text %q, want the same three times", text, r.Detail, err)
	}
	return r.Detail
}

// The neutral values of all optional parameters are omitted.
func TestCanonical_WritesEveryParameter(t *testing.T) {
	const start = "batch_size=16&format=tar&generation=GEN&"
	for raw, want := range map[string]string{
		"": start + "rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"balance=samples&share=contiguous&strata=0": start + "rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"seed=0&shuffle=full":                       start + "rank=0&seed=0&shuffle=full&tail=short&world_size=1",
		"shuffle=none&tail=drop":                    start + "rank=0&seed=7&shuffle=none&tail=drop&world_size=1",
		"shuffle=window&window=9&strata=3":          start + "rank=0&seed=7&shuffle=window&strata=3&tail=short&window=9&world_size=1",
		"world_size=4&rank=3&balance=bytes":         "balance=bytes&" + start + "rank=3&seed=7&shuffle=slot&tail=short&window=4&world_size=4",
		"world_size=4&share=locality":               start + "rank=0&seed=7&share=locality&shuffle=slot&tail=short&window=4&world_size=4",
		"world_size=4&share=locality&homes=4":       start + "rank=0&seed=7&share=locality&shuffle=slot&tail=short&window=4&world_size=4",
		"world_size=4&share=locality&homes=2":       start + "homes=2&rank=0&seed=7&share=locality&shuffle=slot&tail=short&window=4&world_size=4",
		"importance=DIG":                            start + "importance=DIG&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"quarantine=DIG&subset=train":               start + "quarantine=DIG&rank=0&seed=7&shuffle=slot&subset=train&tail=short&window=4&world_size=1",
		"quarantine=samples:1,2":                    start + "quarantine=samples:1-2&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"subset=a%3D2,b%3D2:a&tail=pad":             start + "rank=0&seed=7&shuffle=slot&subset=a=1,b=1:a&tail=pad&window=4&world_size=1",
		"fields=jpg%2Ccls":                          "batch_size=16&fields=jpg,cls&format=tar&generation=GEN&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"format=json&fields=a%2Bb":                  "batch_size=16&fields=a%2Bb&format=json&generation=GEN&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
		"format=raw&table=parts,keys":               "batch_size=16&format=raw&generation=GEN&rank=0&seed=7&shuffle=slot&table=keys,parts&tail=short&window=4&world_size=1",
		"format=raw&table=parts":                    "batch_size=16&format=raw&generation=GEN&rank=0&seed=7&shuffle=slot&table=parts&tail=short&window=4&world_size=1",
		"batch_size=2147483648&rank=2147483647&world_size=2147483648&seed=18446744073709551615": "batch_size=2147483648&format=tar&generation=GEN&rank=2147483647&seed=18446744073709551615&shuffle=slot&tail=short&window=4&world_size=2147483648",
		"shuffle=window&window=2147483648&strata=65536":                                         start + "rank=0&seed=7&shuffle=window&strata=65536&tail=short&window=2147483648&world_size=1",
		"generation=GEN": start + "rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
	} {
		in := strings.NewReplacer("GEN", generation, "DIG", digest)
		b, err := decode(photos(), in.Replace(raw), "0", "0")
		if got := b.Canonical(); err != nil || got != in.Replace(want) {
			t.Errorf("%s: got %s, %v, want %s", raw, got, err, in.Replace(want))
		}
	}
}

// A plan's canonical query determines the plan: parsing it returns an equal plan, whose canonical
// query is the same text.
func TestCanonical_IsReadBackAsThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var raw []string
		maybe := func(name string, values ...string) {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, name); v != "" {
				raw = append(raw, name+"="+v)
			}
		}
		maybe("batch_size", "1", "16", "2147483648")
		maybe("seed", "0", "18446744073709551615")
		maybe("shuffle", "none", "full", "window", "slot")
		maybe("window", "1", "3")
		maybe("strata", "2")
		maybe("tail", "short", "drop", "pad")
		maybe("world_size", "1", "4")
		maybe("rank", "0", "3")
		maybe("balance", "samples", "bytes")
		maybe("share", "contiguous", "locality")
		maybe("homes", "1", "2", "4")
		maybe("importance", digest)
		maybe("subset", "train", "a=1,b=3:a")
		maybe("quarantine", digest, "samples:4,7-9")
		maybe("format", "tar", "raw", "json")
		maybe("fields", "cls", "jpg,cls")
		maybe("table", "keys", "keys,parts")
		b, err := decode(photos(), strings.Join(raw, "&"), "2", "5")
		if err != nil {
			return
		}
		again, err := decode(photos(), b.Canonical(), "2", "5")
		if err != nil {
			t.Fatalf("%s: %v", b.Canonical(), err)
		}
		want := b
		want.View.Chosen, want.Pinned = true, !strings.Contains(b.Canonical(), "subset=train") // the canonical URL sets these
		if !reflect.DeepEqual(again, want) || again.Canonical() != b.Canonical() {
			t.Fatalf("%s: got %+v, want %+v", b.Canonical(), again, want)
		}
		names := strings.Split(b.Canonical(), "&")
		if !slices.IsSorted(names) {
			t.Fatalf("%s: the names are not in order", b.Canonical())
		}
	})
}

func TestParseQuery_AcceptsEveryKnownParameterTogether(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	q := ParseQuery(strings.Join(names, "=1&")+"=1", names...)
	if q.Err() != nil || !q.Has(names[len(names)-1]) {
		t.Errorf("%d parameters: got %v", len(names), q.Err())
	}
}

func TestPlan_AcceptsAsManyFieldsAsThereMayBe(t *testing.T) {
	names := make([]string, maxFields)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	if b, err := decode(photos(), "fields="+strings.Join(names, ","), "0", "0"); err != nil || !slices.Equal(b.View.Fields, names) {
		t.Errorf("got %d fields, %v, want all %d", len(b.View.Fields), err, maxFields)
	}
}

func TestPlan_RefusesParameters(t *testing.T) {
	tooMany := len(BatchNames()) + maxUnknown
	for _, c := range []struct{ raw, want string }{
		{"x=1", "x: unknown parameter"},
		{"=1", "query: a parameter has no name"},
		{"seed=1&seed=1", "seed: given more than once"},
		{"seed=", "seed: empty"},
		{"seed", "seed: empty"},
		{strings.Repeat("seed=1&", tooMany) + "x=1", fmt.Sprintf("query: has more than %d parameters", tooMany)},
		{strings.Repeat("x&", 70) + "é", fmt.Sprintf("query: has more than %d parameters", tooMany)},
		{"é" + strings.Repeat("x", 70) + "=1", "?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: unknown parameter"},
		{"seed=-1", "seed: must be an unsigned decimal number, with digits only"},
		{"seed=18446744073709551616", "seed: must be below 2^64"},
		{"seed=01", "seed: must not have leading zeros"},
		{"batch_size=0", "batch_size: must be at least 1"},
		{"batch_size=2147483649", "batch_size: must be at most 2147483648"},
		{"shuffle=random", "shuffle: must be one of none, window, slot, full"},
		{"shuffle=window&window=0", "window: must be at least 1"},
		{"shuffle=window&window=2147483649", "window: must be at most 2147483648"},
		{"shuffle=none&window=3", "window: has no meaning for shuffle none"},
		{"shuffle=slot&window=1048577", "window: must be at most 1048576"},
		{"strata=65537", "strata: must be at most 65536"},
		{"shuffle=full&strata=2", "strata: strata is 2: must be 0, since only window has strata"},
		{"shuffle=random&strata=2", "shuffle: must be one of none, window, slot, full"},
		{"shuffle=window&window=0&strata=2", "window: must be at least 1"},
		{"tail=long", "tail: must be one of short, drop, pad"},
		{"importance=x", "importance: must be 64 hexadecimal digits in lower case"},
		{"importance=" + strings.ToUpper(digest), "importance: must be 64 hexadecimal digits in lower case"},
		{"rank=1", "rank: must be below world_size"},
		{"rank=4&world_size=4", "rank: must be below world_size"},
		{"world_size=0", "world_size: must be at least 1"},
		{"world_size=2147483649", "world_size: must be at most 2147483648"},
		{"balance=size", "balance: must be samples, bytes, or cost: and the name of a cost table, of at most 64 letters, digits, dots, dashes and underscores, or its digest; of a mixture, a digest for each source"},
		{"micro=2", "micro: requires balance=bytes or balance=cost:NAME"},
		{"balance=bytes&micro=1025", "micro: must be at most 1024"},
		{"share=none", "share: must be one of contiguous, locality"},
		{"homes=2", "homes: has no meaning without share=locality"},
		{"share=locality&balance=bytes&world_size=2", "share: locality and balance=bytes exclude each other"},
		{"share=locality&world_size=65537", "share: locality for more than 65536 ranks requires homes, at most 65536"},
		{"share=locality&world_size=65537&homes=65537", "homes: must be at most 65536"},
		{"share=locality&world_size=2&homes=3", "homes: must be at most world_size"},
		{"share=locality&world_size=0&homes=3", "world_size: must be at least 1"},
		{"share=locality&world_size=4&shuffle=full", "share: shuffle full has no homes: use slot, or window with strata"},
		{"share=locality&world_size=4&homes=2&shuffle=full", "homes: shuffle full has no homes: use slot, or window with strata"},
		{"subset=", "subset: empty"},
		{"subset=a/b", "subset: a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"subset=%zz", "subset: invalid URL escape"},
		{"quarantine=x", "quarantine: must be 64 hexadecimal digits in lower case, or samples: and the numbers of samples, such as samples:7,300-309"},
		{"quarantine=%zz", "quarantine: invalid URL escape"},
		{"quarantine=samples:9-3", "quarantine: numbers of samples must ascend, each once, below 2^62"},
		{"importance=" + digest + "&subset=train&quarantine=" + digest, "subset: excludes importance: a snapshot has weights of all samples of the dataset; quarantine: excludes importance: a snapshot has weights of all samples of the dataset"},
		{"format=zip", "format: must be one of tar, raw, json"},
		{"fields=a,,b", "fields: has an empty name"},
		{"fields=a,b,a", "fields: a is given more than once"},
		{"fields=%zz", "fields: invalid URL escape"},
		{"fields=a" + strings.Repeat(",b", 256), "fields: has more than 256 names"},
		{"fields=a&format=raw", "fields: has no meaning for format raw"},
		{"table=keys", "table: has no meaning for format tar"},
		{"table=keys,keys&format=raw", "table: must be keys, parts, or both, each once"},
		{"table=all&format=raw", "table: must be keys, parts, or both, each once"},
		{"table=%zz&format=raw", "table: invalid URL escape"},
		{"generation=x", "generation: must be 64 hexadecimal digits in lower case, or the first 32 of them"},
		{"seed=x&batch_size=y&x=1", "x: unknown parameter; batch_size: must be an unsigned decimal number, with digits only; seed: must be an unsigned decimal number, with digits only"},
	} {
		_, err := decode(photos(), c.raw, "0", "0")
		if got := refused(t, err); got != c.want {
			t.Errorf("%.99s: got %q, want %q", c.raw, got, c.want)
		}
	}
}
