package mds

import (
	"encoding/hex"
	"testing"
)

// The expected sums come from Python's xxhash.
func TestNewHash_XXH64(t *testing.T) {
	for n, want := range map[int]string{
		0:    "ef46db3751d8e999",
		1:    "e934a84adb052768",
		3:    "9ff70a635a6209ab",
		4:    "ae5acdc00a55ac41",
		7:    "d734a6b26f3da63e",
		8:    "87116b3365b924eb",
		12:   "14b8433b9a14e611",
		15:   "02c53ab1e360882f",
		31:   "0f187c62b1e722b7",
		32:   "91b0cb0931a8c629",
		33:   "931b043cf8d65b94",
		47:   "980974feb2a7370d",
		63:   "219110bf13e2fa26",
		64:   "bf3052e3445775d0",
		65:   "ed65e3510df3611d",
		100:  "8e2272c08247d5db",
		1000: "25275608a9cfc168",
	} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(7 * i)
		}
		for _, step := range []int{1, 5, 32, 33, 2000} { // written in pieces
			x := newHash("xxh64")
			for from := 0; from < n; from += step {
				if _, err := x.Write(b[from:min(n, from+step)]); err != nil {
					t.Fatal(err)
				}
			}
			if got := hex.EncodeToString(x.Sum(nil)); got != want {
				t.Errorf("%d bytes in pieces of %d: got %s, want %s", n, step, got, want)
			}
		}
	}
}
