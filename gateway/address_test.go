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
			"b475c677cd9b275a7c236b54b1eff61428d1755538cb2ff67350c0314bb410f8",
		},
		{
			batch + "?shuffle=window&window=8&tail=pad",
			batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=window&tail=pad&window=8&world_size=1",
			"c87b9084686b42ed22d4dde1fb877253847ac916b4ad6d4c3ffbffbf4ff8f26b",
		},
		{
			batch + "?shuffle=none&rank=1&world_size=3&balance=bytes",
			batch + "?balance=bytes&batch_size=16&format=tar" + generation + "&rank=1&seed=7&shuffle=none&tail=short&world_size=3",
			"91dd09c427f1d65e15f7ccc5639e33c255838a0bebdc3b1de1cbf1943eba22b7",
		},
		{
			batch + "/manifest?seed=11",
			batch + "/manifest?batch_size=16&format=tar" + generation + "&rank=0&seed=11&shuffle=slot&tail=short&window=4&world_size=1",
			"c156bfcf28688f004316572a05ab5950f7f691ea0dc3de042bd828920477d5d1",
		},
		{
			"/v1/datasets/photos/epochs/3?batch_size=5",
			"/v1/datasets/photos/epochs/3?batch_size=5&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"c3b3d32debb18c37e710d7f437b7df834c7407e81bc73b5ac4d627b01c016582",
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
