package build

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memory"
)

// TestMaxScan_CoversEveryTar checks that no tar shard has a scan longer than maxScan, for any
// names, samples and chunks.
func TestMaxScan_CoversEveryTar(t *testing.T) {
	for name, members := range map[string]func(i int) string{
		"long keys":       func(i int) string { return ustar(i) + ".a" },
		"long extensions": func(i int) string { return "k." + ustar(i) },
		"short names":     func(i int) string { return string(rune('a' + i)) },
		"many parts":      func(i int) string { return "k." + string(rune('a'+i)) },
		"longest names":   func(i int) string { return strings.Repeat("d/", 2000) + string(rune('a'+i)) },
	} {
		var shard bytes.Buffer
		w := tar.NewWriter(&shard)
		for i := range 26 {
			if err := w.WriteHeader(&tar.Header{Name: members(i), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		out, err := newScanWriter(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		out.begin()
		cut := newCutter(1, out.write) // produces one chunk per sample
		listed := newListing(nil, "", []objstore.Object{{Key: "a.tar", Size: int64(shard.Len())}})
		d, err := webdataset.Format().Survey(t.Context(), listed, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Scan(t.Context(), 0, &shard, cut); err != nil {
			t.Fatal(err)
		}
		size := cut.off
		if err := cut.finish(); err != nil {
			t.Fatal(err)
		}
		s, err := out.finish()
		if err != nil {
			t.Fatal(err)
		}
		if s.size > maxScan(1, size) { // size is the length of the scan's frames
			t.Errorf("%s: got a scan of %d bytes for a shard of %d", name, s.size, size)
		}
	}
}

// ustar returns a name close to the longest that one header block can hold.
func ustar(i int) string {
	return strings.Repeat("p", 150) + "/" + strings.Repeat("n", 90) + string(rune('a'+i))
}

// TestTakeKept_InvalidScans: stored scans are untrusted input. An invalid scan of a shard must be
// ignored, and the shard must be read again.
func TestTakeKept_InvalidScans(t *testing.T) {
	const table = len(keptMagic) + 4 // offset of the table in an object with one scan
	const begin = table + len(scanName{}) + 8
	frame := func(do func(frame []byte)) func([]byte) []byte {
		return func(b []byte) []byte { do(b[begin+4:]); return b }
	}
	resize := func(b []byte, n int) []byte { // returns an object whose only scan claims n more bytes
		binary.LittleEndian.PutUint64(b[begin-8:], binary.LittleEndian.Uint64(b[begin-8:])+uint64(n))
		return append(b, make([]byte, max(n, 0))...)
	}
	for name, change := range map[string]func(scan []byte) []byte{
		"unchanged":               func(b []byte) []byte { return b },
		"empty":                   func([]byte) []byte { return []byte{0} },
		"longer than can be":      func(b []byte) []byte { return resize(b, 2<<20) },
		"longest of all":          func(b []byte) []byte { binary.LittleEndian.PutUint64(b[begin-8:], 1<<64-1); return b },
		"other magic":             func(b []byte) []byte { b[7]++; return b },
		"scans of 4 Gi":           func(b []byte) []byte { copy(b[len(keptMagic):], "\xff\xff\xff\xff"); return b },
		"two scans":               func(b []byte) []byte { b[len(keptMagic)]++; return b },
		"another's scan":          func(b []byte) []byte { b[table]++; return b },
		"frame of 4 GiB":          func(b []byte) []byte { copy(b[begin:], "\xff\xff\xff\xff"); return b },
		"samples of 4 GiB":        frame(func(f []byte) { copy(f[44:], "\xff\xff\xff\xff") }),
		"chunk longer":            frame(func(f []byte) { binary.LittleEndian.PutUint64(f[36:], 1<<20) }),
		"unknown codec":           frame(func(f []byte) { f[72] = 200 }),
		"bytes to pass over":      frame(func(f []byte) { f[76] = 1 }),
		"extent in another shard": frame(func(f []byte) { f[80] = 1 }),
		"extent past the end":     frame(func(f []byte) { binary.LittleEndian.PutUint64(f[88:], 1<<20) }),
		"extent before the end":   frame(func(f []byte) { binary.LittleEndian.PutUint64(f[88:], 1<<63) }),
		"sample past its chunk":   frame(func(f []byte) { f[106] = 0x7f }),
		"name past its block":     frame(func(f []byte) { f[104+uint64(binary.LittleEndian.Uint32(f[56:]))] = 0x7f }),
		"parts without an end": frame(func(f []byte) {
			f[105+uint64(binary.LittleEndian.Uint32(f[56:]))+uint64(binary.LittleEndian.Uint32(f[60:]))] = 0x7f
		}),
		"frame that is not all":   func(b []byte) []byte { return resize(b[:len(b)-1], -1) },
		"frame that is too long":  func(b []byte) []byte { return resize(b, 1) },
		"object that is too long": func(b []byte) []byte { return append(b, 0) },
		"object that is not all":  func(b []byte) []byte { return b[:len(b)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			store, want := indexedTars(t)
			store.Delete(t.Context(), layout.PointerKey)
			interrupted(t, store)
			kept := 0
			for _, k := range store.Keys() {
				if !strings.HasPrefix(k, layout.ScanDir) {
					continue
				}
				b, _ := store.Bytes(k)
				b = change(bytes.Clone(b))
				store.Delete(t.Context(), k)
				store.Set(fmt.Sprintf("%s%x", layout.ScanDir, sha256.Sum256(b)), b)
				kept++
			}
			if kept == 0 {
				t.Fatal("no scan was kept")
			}
			if name != "unchanged" {
				kept = 0
			}
			var rep Report
			var err error
			got := memory.Allocated(func() { rep, err = Run(t.Context(), store, "", Options{}) })
			if err != nil || rep.Generation != want.Generation || rep.ReusedShards != kept {
				t.Errorf("got %+v, %v, want %d scans used for %s", rep, err, kept, want.Generation)
			}
			if got > 16<<20 {
				t.Errorf("got %d bytes allocated", got)
			}
		})
	}
}

// TestTakeKept_ChecksTheKey checks that the scans in an object are used only if the object's key
// matches its digest.
func TestTakeKept_ChecksTheKey(t *testing.T) {
	store, want := indexedTars(t)
	store.Delete(t.Context(), layout.PointerKey)
	interrupted(t, store)
	for i, k := range slices.DeleteFunc(store.Keys(), func(k string) bool { return !strings.HasPrefix(k, layout.ScanDir) }) {
		b, _ := store.Bytes(k)
		store.Delete(t.Context(), k)
		store.Set(fmt.Sprint(layout.ScanDir, i), b)
	}
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil || rep.Generation != want.Generation || rep.ReusedShards != 0 {
		t.Errorf("got %+v, %v, want nothing used for %s", rep, err, want.Generation)
	}
}
