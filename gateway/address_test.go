package gateway_test

import (
	"strings"
	"testing"
)

// TestAddressesStay: what was an address before a parameter came stays one, with its ETag, and so does the address with that
// parameter at the value that changes nothing.
func TestAddressesStay(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const batch = "/v1/datasets/photos/epochs/3/batches/1"
	generation := "&generation=" + r.index.Generation()
	for _, c := range []struct{ path, location, etag string }{
		{
			batch, batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"c1905c5dfe580fe221fb3e3666da7687a4283be4b02fb4f4022a605df8abf24e",
		},
		{
			batch + "?shuffle=window&window=8&tail=pad",
			batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=window&tail=pad&window=8&world_size=1",
			"88c86364f860e95a65ac8c757b3e52e4962e0825860b00eafa9707cfa45228a4",
		},
		{
			batch + "?shuffle=none&rank=1&world_size=3&balance=bytes",
			batch + "?balance=bytes&batch_size=16&format=tar" + generation + "&rank=1&seed=7&shuffle=none&tail=short&world_size=3",
			"475570ee8f0a3c2e5bb4112ae25d79b65e18eea04ee06c876892c03843b78313",
		},
		{
			batch + "/manifest?seed=11",
			batch + "/manifest?batch_size=16&format=tar" + generation + "&rank=0&seed=11&shuffle=slot&tail=short&window=4&world_size=1",
			"95e8d110c8eaebcb035183422e1ecf4e2d79d486c28296c908bc0c698e48d044",
		},
		{
			"/v1/datasets/photos/epochs/3?batch_size=5",
			"/v1/datasets/photos/epochs/3?batch_size=5&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"bf555222d84a6244fd88d8c46362be8e3e539cf772e5720febe32cf45591432e",
		},
	} {
		sep := "?"
		if strings.Contains(c.path, "?") {
			sep = "&"
		}
		for _, path := range []string{c.path, c.path + sep + "split=contiguous&strata=0"} {
			h := r.do("HEAD", path).Header
			if got := h.Get("Content-Location"); got != c.location {
				t.Errorf("%s: got Content-Location %s, want %s", path, got, c.location)
			}
			if got, want := h.Get("ETag"), `"`+c.etag+`"`; got != want {
				t.Errorf("%s: got ETag %s, want %s", path, got, want)
			}
		}
	}
}
