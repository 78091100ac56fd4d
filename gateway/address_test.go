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
			"73467555314904d7309ed1e9581e3aab42db95ec3e9ddf5edf3aa8d253d7bc6a",
		},
		{
			batch + "?shuffle=window&window=8&tail=pad",
			batch + "?batch_size=16&format=tar" + generation + "&rank=0&seed=7&shuffle=window&tail=pad&window=8&world_size=1",
			"bf6595990d513159d6c2e553eba56573baea00b469b3d310158aae77a1222306",
		},
		{
			batch + "?shuffle=none&rank=1&world_size=3&balance=bytes",
			batch + "?balance=bytes&batch_size=16&format=tar" + generation + "&rank=1&seed=7&shuffle=none&tail=short&world_size=3",
			"badfe0a53c1f659275b6ba51955c1a73bad985b7e05acc97580a268e40e189bc",
		},
		{
			batch + "/manifest?seed=11",
			batch + "/manifest?batch_size=16&format=tar" + generation + "&rank=0&seed=11&shuffle=slot&tail=short&window=4&world_size=1",
			"2af88aefc1916248be45c69020ad8c8e6c7b0980ad0afdd5fb3636142b56cb9d",
		},
		{
			"/v1/datasets/photos/epochs/3?batch_size=5",
			"/v1/datasets/photos/epochs/3?batch_size=5&format=tar" + generation + "&rank=0&seed=7&shuffle=slot&tail=short&window=4&world_size=1",
			"ca05f1ac8d392f63970fdf240c365a1a92024931121640fd5c3433b07e1c16b1",
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
