package location

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParse_IndexNames parses addresses with the name of an index, prints them, and parses the result.
func TestParse_IndexNames(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "run#1")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]struct{ name, index, shards, address string }{
		"s3://bucket/p#train":                           {"p-train", "train", "s3://bucket/p", "s3://bucket/p#train"},
		"q=s3://bucket/p#train":                         {"q", "train", "s3://bucket/p", "s3://bucket/p#train"},
		"s3://bucket#a.b_c-1":                           {"bucket-a.b_c-1", "a.b_c-1", "s3://bucket/", "s3://bucket/#a.b_c-1"},
		"s3://bucket/p?profile=a#val":                   {"p-val", "val", "s3://bucket/p?profile=a", "s3://bucket/p?profile=a#val"},
		"s3://bucket/p#val,index=s3://mine/p?profile=b": {"p-val", "val", "s3://bucket/p", "s3://bucket/p#val,index=s3://mine/p?profile=b"},
		"file:///data/p#val":                            {"p-val", "val", "file:///data/p", "file:///data/p#val"},
		"file:///data/p%23val":                          {"p=", "", "file:///data/p%23val", "file:///data/p%23val"},
		dir + "#val":                                    {"", "val", "file://" + dir, "file://" + dir + "#val"},
		dir + "#val,links=follow":                       {"", "val", "file://" + dir, "file://" + dir + "#val,links=follow"},
		"n=" + odd:                                      {"n", "", "file://" + dir + "/run%231", "file://" + dir + "/run%231"}, // a directory of this name exists
		"n=" + odd + "#val":                             {"n", "val", "file://" + dir + "/run%231", "file://" + dir + "/run%231#val"},
	} {
		if want.name == "p=" { // the directory's name is not valid as a dataset's
			in, want.name = "p="+in, "p"
		}
		l, err := Parse(in)
		if err != nil || want.name != "" && l.Name != want.name || l.IndexName != want.index || l.Shards() != want.shards || l.Address() != want.address || l.OfIndex().IndexName != want.index {
			t.Errorf("%s: got %+v, %s, %s (%v), want %+v", in, l, l.Shards(), l.Address(), err, want)
			continue
		}
		if strings.Contains(l.Plain(), "#") || l.Plain() != strings.TrimSuffix(l.Shards(), l.Service.query()) {
			t.Errorf("%s: got %s as its plain address", in, l.Plain())
		}
		again, err := Parse(l.Name + "=" + l.Address())
		if err != nil || !same(again, l) {
			t.Errorf("%s: printed as %s, which is %+v (%v)", in, l.Address(), again, err)
		}
	}
	for in, want := range map[string]string{
		"s3://bucket/p#":                           "1 to 64",
		"s3://bucket/p#Train":                      "1 to 64 lower-case letters",
		"s3://bucket/p#train?profile=a":            "must end with #NAME",
		"s3://bucket/p#a/b":                        "1 to 64 lower-case letters",
		"s3://bucket/p,index=s3://mine/p#train":    "as in s3://bucket/p#train",
		"s3://bucket/p#" + strings.Repeat("a", 65): "1 to 64",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a fault with %q", in, err, want)
		}
	}
}

// TestPlace_IsSharedByIndexesOfOneDataset: all indexes of the same shards share chunks on disk and
// losses.
func TestPlace_IsSharedByIndexesOfOneDataset(t *testing.T) {
	profiles(t, "")
	s := &Stores{}
	a, b := parsed(t, "s3://bucket/p?endpoint=http://minio:9000#train"), parsed(t, "s3://bucket/p?endpoint=http://minio:9000")
	if s.Place(a) != s.Place(b) || a.Plain() != b.Plain() || a.Address() == b.Address() {
		t.Errorf("got %s and %s, want one place of two addresses", s.Place(a), s.Place(b))
	}
	if err := a.PutName("train"); err != nil {
		t.Error(err)
	}
	if err := a.PutName("val"); err == nil || !strings.Contains(err.Error(), "already names the index #train") {
		t.Errorf("got %v, want the other name refused", err)
	}
}

// TestParse_CommonMistakes: a scheme may be in capitals. Errors about mistakes such as patterns
// contain no secrets.
func TestParse_CommonMistakes(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "a*b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{"S3://bucket/P": "s3://bucket/P", "p=FILE://" + dir: "file://" + dir, "p=" + odd: "file://" + odd, "p=file://" + odd: "file://" + odd} {
		if l, err := Parse(in); err != nil || l.Address() != want {
			t.Errorf("%s: got %s, %v, want %s", in, l.Address(), err, want)
		}
	}
	for in, want := range map[string]string{
		"s3://bucket/p/*.parquet":          "use s3://bucket/p/, and index it with --match '*.parquet'",
		"s3://bucket/p/*/x.tar?profile=a":  "use s3://bucket/p/?profile=a, and index it with --match '*/x.tar'",
		"s3://key:canary@bucket/p/*.tar":   "an address cannot contain a pattern",
		"s3://bucket/p/x-{000..004}.tar":   "use s3://bucket/p/, and index it with --match 'x-{000..004}.tar'",
		dir + "/{train,val}/x.tar":         "use " + dir + "/, and index it with --match '{train,val}/x.tar'",
		"s3:/bucket/p":                     "must be s3://bucket/p, with two slashes",
		"*.jpg":                            "use ., and index it with --match '*.jpg'",
		dir + "/train-*.tar":               "use " + dir + "/, and index it with --match 'train-*.tar'",
		"file://" + dir + "/x/*.tar":       "use file://" + dir + "/x/, and index it with --match '*.tar'",
		"s3://bucket/p,index=s3://mine/p*": "an address cannot contain a pattern",
		"s3://":                            "no bucket: must be s3://bucket/prefix",
		"s3:///prefix":                     "no bucket: must be s3://bucket/prefix",
		"hf://me/pairs":                    `scheme "hf": must be s3:// or file://`,
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
	for gateway, want := range map[string]string{
		"gw:8080": "http://gw:8080/a%20b", "https://gw/": "https://gw/a%20b", "unix:/run/socket": "", "dns:gw:80": "", "./gw": "",
	} {
		got := OfServed(gateway, "a b")
		if at, name, ok := Served(got, ""); got != want || ok != (want != "") || ok && (name != "a b" || at+"/a%20b" != want) {
			t.Errorf("%s: got %q, which divides into %q and %q, want %q", gateway, got, at, name, want)
		}
	}
	if gateway, name, ok := Served("HTTP://gw:8080/Photos", ""); gateway != "http://gw:8080" || name != "Photos" || !ok {
		t.Errorf("got %s and %s", gateway, name)
	}
}
