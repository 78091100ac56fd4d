package gateway_test

import (
	"strings"
	"testing"
)

// TestAddressesStay: adding a parameter changes neither the validity nor the ETag of an address
// without it. The same holds for an address that sets the parameter to its neutral value.
func TestAddressesStay(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const batch = "/v1/datasets/photos/epochs/3/batches/1"
	generation := "&generation=" + r.index.Generation()
	for _, c := range []struct{ path, location, etag string }{
		{
			batch, batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"951c8f5c14a043e284efcefbb0125f044e9b570a81078bf626ba049c98ff1c9d",
		},
		{
			batch + "?shuffle=window&window=8&tail=pad",
			batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=window&tail=pad&window=8&world_size=1",
			"d0d4303fe604dcca4c7b60f3e593b741176a4aea349bcbbf59f588534bef8440",
		},
		{
			batch + "?shuffle=none&rank=1&world_size=3&balance=bytes",
			batch + "?balance=bytes&batch_size=16&format=tar" + generation + "&rank=1&seed=7&shuffle=none&tail=short&world_size=3",
			"d61b65fb0947af3c316c708abc5937d333d28578c4a6a90233b277d792be3335",
		},
		{
			batch + "/manifest?seed=11",
			batch + "/manifest?batch_size=16&format=tar" + generation + "&rank=0&seed=11&shuffle=slot&tail=short&window=4&world_size=1",
			"5489bab1a4d33d00ff65cfaeeb5ed2772a43ae32f2ee0c5dc6563ef77f344233",
		},
		{
			"/v1/datasets/photos/epochs/3?batch_size=5",
			"/v1/datasets/photos/epochs/3?batch_size=5&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"129c08321c60ed16fe5cbe2f110ed0c747de717b4bd5a775b3dc5369374a1972",
		},
	} {
		sep := "?"
		if strings.Contains(c.path, "?") {
			sep = "&"
		}
		for _, path := range []string{c.path, c.path + sep + "share=contiguous&strata=0"} {
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
