package location

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAddressesNameAnIndex parses addresses with the name of an index, and prints them again.
func TestAddressesNameAnIndex(t *testing.T) {
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
		"n=" + odd:                                      {"n", "", "file://" + dir + "/run%231", "file://" + dir + "/run%231"}, // it is there
		"n=" + odd + "#val":                             {"n", "val", "file://" + dir + "/run%231", "file://" + dir + "/run%231#val"},
	} {
		if want.name == "p=" { // no name can be made of the directory's
			in, want.name = "p="+in, "p"
		}
		l, err := Parse(in)
		if err != nil || want.name != "" && l.Name != want.name || l.IndexName != want.index || l.Shards() != want.shards || l.Address() != want.address || l.OfIndex().IndexName != want.index {
			t.Errorf("%s: got %+v, %s, %s (%v), want %+v", in, l, l.Shards(), l.Address(), err, want)
			continue
		}
		if strings.Contains(l.Plain(), "#") || l.Plain() != strings.TrimSuffix(l.Shards(), l.Service.query()) {
			t.Errorf("%s: got %s as its place", in, l.Plain())
		}
		again, err := Parse(l.Name + "=" + l.Address())
		if err != nil || !same(again, l) {
			t.Errorf("%s: printed as %s, which is %+v (%v)", in, l.Address(), again, err)
		}
	}
	for in, want := range map[string]string{
		"s3://bucket/p#":                           "1 to 64",
		"s3://bucket/p#Train":                      "1 to 64 small letters",
		"s3://bucket/p#train?profile=a":            "at the end of the address",
		"s3://bucket/p#a/b":                        "1 to 64 small letters",
		"s3://bucket/p,index=s3://mine/p#train":    "as in s3://bucket/p#train",
		"s3://bucket/p#" + strings.Repeat("a", 65): "1 to 64",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a fault with %q", in, err, want)
		}
	}
}

// TestNamesOfOneDatasetSharePlaces: chunks on disk and losses are those of the shards, by whichever index these are read.
func TestNamesOfOneDatasetSharePlaces(t *testing.T) {
	profiles(t, "")
	s := &Stores{Endpoint: "http://minio:9000"}
	a, b := parsed(t, "s3://bucket/p#train"), parsed(t, "s3://bucket/p")
	if s.Place(a) != s.Place(b) || a.Plain() != b.Plain() || a.Address() == b.Address() {
		t.Errorf("got %s and %s, want one place of two addresses", s.Place(a), s.Place(b))
	}
	if err := a.PutName("train"); err != nil {
		t.Error(err)
	}
	if err := a.PutName("val"); err == nil || !strings.Contains(err.Error(), "#train already") {
		t.Errorf("got %v, want the other name refused", err)
	}
}
