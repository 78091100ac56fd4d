package scantest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Finds checks that a format finds exactly these samples in a dataset, by shard key. The map has an
// entry for each shard, including shards without samples. nil: the format does not claim the
// dataset.
func Finds(t *testing.T, f format.Format, o format.Options, objects Objects, want map[string][]Sample) {
	t.Helper()
	got, err := Scan(t.Context(), f, o, objects)
	if err != nil {
		t.Error(err)
	}
	if got, want := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("got shards %q, want %q", got, want)
	}
	for key := range want {
		if !reflect.DeepEqual(got[key], want[key]) {
			t.Errorf("shard %s: got %+v, want %+v", key, got[key], want[key])
		}
	}
}

// Refuses checks that a format rejects a dataset with an error that contains want.
func Refuses(t *testing.T, f format.Format, o format.Options, objects Objects, want string) {
	t.Helper()
	got, err := Scan(t.Context(), f, o, objects)
	if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, format.ErrRule) {
		t.Errorf("got %v, %v, want a refusal that says %q", got, err, want)
	}
}

// Refused checks that an error of Scan is not ErrRule. A scanner may reject any bytes, but must not
// break a rule.
func Refused(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, format.ErrRule) {
		t.Error(err)
	}
}

// Faults checks that a store error, after any number of bytes, is not mistaken for the end of the
// shard. The dataset consists of this shard only.
func Faults(t *testing.T, f format.Format, o format.Options, key string, shard []byte) {
	t.Helper()
	d, err := f.Survey(t.Context(), Objects{key: shard}, o)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(shard) + 1 {
		if err := d.Scan(t.Context(), 0, Broken{In: bytes.NewReader(shard[:n])}, Nothing{}); !errors.Is(err, ErrBroken) {
			t.Fatalf("%s after %d bytes: got %v, want %v", key, n, err, ErrBroken)
		}
	}
}

// Files reads a dataset from files in a directory.
func Files(t testing.TB, dir string, keys ...string) Objects {
	t.Helper()
	o := Objects{}
	for _, key := range keys {
		b, err := os.ReadFile(filepath.Join(dir, key))
		if err != nil {
			t.Fatal(err)
		}
		o[key] = b
	}
	return o
}

// Edit returns a copy of the dataset in which change has modified the JSON object stored under key.
func (o Objects) Edit(t testing.TB, key string, change func(map[string]any)) Objects {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(o[key], &value); err != nil {
		t.Fatal(err)
	}
	change(value)
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	out := Objects{}
	for key, b := range o {
		out[key] = bytes.Clone(b)
	}
	out[key] = b
	return out
}

// With returns a copy of the dataset in which the object under key has these bytes.
func (o Objects) With(key string, b []byte) Objects {
	out := maps.Clone(o)
	out[key] = b
	return out
}
