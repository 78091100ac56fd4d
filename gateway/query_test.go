package gateway

import (
	"bytes"
	"hash/crc32"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCombineCRC(t *testing.T) {
	tables := newCRCTables()
	random := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	whole := crc32.Checksum(data, castagnoli())
	for _, cut := range []int{0, 1, 2, 3, 511, 512, 1024, 4096, 99999, 1<<20 - 1024, 1<<20 - 1, 1 << 20} {
		a, b := crc32.Checksum(data[:cut], castagnoli()), crc32.Checksum(data[cut:], castagnoli())
		if got := tables.combine(a, b, uint32(len(data)-cut)); got != whole {
			t.Errorf("cut at %d: got %08x, want %08x", cut, got, whole)
		}
	}
	// Advancing by 2^31 zero bytes is advancing by 2^30 of them twice.
	once := tables.combine(whole, 0, 1<<31)
	if twice := tables.combine(tables.combine(whole, 0, 1<<30), 0, 1<<30); once != twice {
		t.Errorf("got %08x after 2^31 zeros, want %08x", once, twice)
	}
}

// FuzzParams holds the parser to a model made of a regular expression and big integers.
func FuzzParams(f *testing.F) {
	for _, s := range []string{
		"", "seed=1", "seed=18446744073709551615", "seed=18446744073709551616", "seed=-1", "seed=+1", "seed=01", "seed=0&seed=0",
		"seed=%31", "batch_size=0", "batch_size=2147483648", "seed", "seed=", "&", "=", "seed=1&", "x=1", "seed=1&batch_size=3", "seed=1;batch_size=2", "Seed=1",
	} {
		f.Add(s)
	}
	decimal := regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	f.Fuzz(func(t *testing.T, raw string) {
		q := parseQuery(raw, "seed", "batch_size")
		seed, size := q.number("seed", 5, 0, math.MaxUint64), q.number("batch_size", 6, 1, maxBatchSize)
		want := map[string]string{"seed": "5", "batch_size": "6"}
		given := map[string]bool{}
		good := true
		for part := range strings.SplitSeq(raw, "&") {
			if raw == "" {
				break
			}
			name, value, _ := strings.Cut(part, "=")
			n, isNumber := new(big.Int).SetString(value, 10)
			low, high := "0", "18446744073709551615"
			if name == "batch_size" {
				low, high = "1", "2147483648"
			}
			lo, _ := new(big.Int).SetString(low, 10)
			hi, _ := new(big.Int).SetString(high, 10)
			_, known := want[name]
			good = good && known && !given[name] && decimal.MatchString(value) && isNumber && n.Cmp(lo) >= 0 && n.Cmp(hi) <= 0
			given[name] = true
			want[name] = value
		}
		if got := q.err() == nil; got != good {
			t.Fatalf("%q: got accepted %v, want %v: %v", raw, got, good, q.faults)
		}
		got := []string{new(big.Int).SetUint64(seed).String(), new(big.Int).SetUint64(size).String()}
		if good && !slices.Equal(got, []string{want["seed"], want["batch_size"]}) {
			t.Fatalf("%q: got %v, want %v", raw, got, want)
		}
	})
}

// FuzzRangeHeader holds the range parser to net/http's own.
func FuzzRangeHeader(f *testing.F) {
	for _, s := range []string{
		"bytes=0-0", "bytes=0-", "bytes=-1", "bytes=-0", "bytes=9-9", "bytes=10-", "bytes=5-4", "bytes=0-1,2-3", "bytes=", "bytes=-", "lines=0-1",
		"bytes=00-01", "bytes=0-99999999999999999999", "bytes=99999999999999999999-", "bytes= 1-2", "bytes=+1-2",
		"bytes=-77", "bytes=-7",
	} {
		f.Add(s, uint16(10))
	}
	f.Fuzz(func(t *testing.T, header string, n uint16) {
		size := int64(n)
		part, kind := parseRange(header, size)
		if kind == rangePart && (part.start < 0 || part.length < 1 || part.start+part.length > size) {
			t.Fatalf("%q of %d: got %+v, want a part of the body", header, size, part)
		}
		// Where net/http reads one range, it is ours too. It is laxer with spaces and signs, and takes the last 0
		// bytes for a part; its numbers end at 2^63.
		if strings.ContainsAny(header, ", \t\r\n+") || strings.Contains(header, "--") || len(header) > 24 || size == 0 || !strings.HasPrefix(header, "bytes=") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Range"] = []string{header}
		w := httptest.NewRecorder()
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i>>8) ^ byte(i)
		}
		http.ServeContent(w, r, "x.bin", time.Time{}, bytes.NewReader(content))
		if w.Code != http.StatusPartialContent || w.Body.Len() == 0 {
			return
		}
		if kind != rangePart || !bytes.Equal(w.Body.Bytes(), content[part.start:part.start+part.length]) {
			t.Fatalf("%q of %d: got %v %+v, want %s", header, size, kind, part, w.Header().Get("Content-Range"))
		}
	})
}
