package timing

import (
	"strconv"
	"testing"
	"time"
)

// TestMillisecondsAreTheShortestNumber: the header has the numbers of the access line.
func TestMillisecondsAreTheShortestNumber(t *testing.T) {
	for _, d := range []time.Duration{0, 999, 1e3, 10e3, 100e3, 101e3, 120e3, 999_999, 1e6, 1_050_000, 12_300_000, 1e9, 61_001e6} {
		want := strconv.FormatFloat(Milliseconds(d), 'f', -1, 64)
		if got := string(appendMilliseconds([]byte("10"), d)); got != "10"+want {
			t.Errorf("%v: got %s, want 10%s", d, got, want)
		}
	}
}
