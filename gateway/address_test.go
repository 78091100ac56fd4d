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
			"dacbee379174c060900b795a552f3c2ec431789c980f83381d27a1a8246f2485",
		},
		{
			batch + "?shuffle=window&window=8&tail=pad",
			batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=window&tail=pad&window=8&world_size=1",
			"24f00348b8638210938a92f683b4831adc3523a636c038c6454b8ee71fefa3e4",
		},
		{
			batch + "?shuffle=none&rank=1&world_size=3&balance=bytes",
			batch + "?balance=bytes&batch_size=16&format=tar" + generation + "&rank=1&seed=7&shuffle=none&tail=short&world_size=3",
			"30707064eed3c3e3b6e2fa38c5e1ca56ca832e27deeb9d8fd6f1458457a1016f",
		},
		{
			batch + "/manifest?seed=11",
			batch + "/manifest?batch_size=16&format=tar" + generation + "&rank=0&seed=11&shuffle=slot&tail=short&window=4&world_size=1",
			"a595598e29aa9f97364857d574df39d439fab5b79a0254dedfec1f0661a45242",
		},
		{
			"/v1/datasets/photos/epochs/3?batch_size=5",
			"/v1/datasets/photos/epochs/3?batch_size=5&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"9cf662a3ba1fc20cc8794cfcb2602ba71ef3904eccc1a11f18f07396ca4f4432",
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
