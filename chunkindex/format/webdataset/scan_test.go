package webdataset_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func scan(b []byte) ([]scantest.Sample, error) {
	found, err := scantest.Scan(context.Background(), webdataset.Format(), format.Options{}, scantest.Objects{"a.tar": b})
	return found["a.tar"], err
}

type member struct {
	name, body string
	kind       byte
	records    map[string]string
	format     tar.Format
}

func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: 0o644, PAXRecords: m.records, Format: m.format, Size: int64(len(m.body))}
		switch m.kind {
		case tar.TypeXGlobalHeader:
			h = &tar.Header{Typeflag: m.kind, PAXRecords: m.records}
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = "target"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func keys(samples []scantest.Sample) []string {
	var out []string
	for _, s := range samples {
		k := s.Key
		for _, p := range s.Parts {
			k += "|" + p.Ext
		}
		out = append(out, k)
	}
	return out
}

func TestGrouping(t *testing.T) {
	long := strings.Repeat("long/", 60) + "n.jpg"
	most := strings.Repeat("d/", 2046) + "n.jp" // 4,096 bytes
	b := archive(t,
		member{kind: tar.TypeXGlobalHeader, records: map[string]string{"comment": "a commit", "uname": "nobody", "mtime": "1"}},
		member{name: "d/", kind: tar.TypeDir},
		member{name: "d/a.jpg", body: "1"}, member{name: "d/a.cls", body: ""}, member{name: "d/a.tar.gz", body: "3"},
		member{name: "d.x/b.jpg"}, member{name: "e/.hidden.jpg"}, member{name: "README"}, member{name: "none", body: "x"},
		member{name: long, body: "x"}, member{name: most, body: "x"},
		member{name: "line\nbreak.jpg"}, member{name: "grün.jpg"}, member{name: "grün.cls"},
		member{name: strings.Repeat("g", 200) + ".jpg", format: tar.FormatGNU},
	)
	got, err := scan(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"d/a|jpg|cls|tar.gz", "d.x/b|jpg", "README|", "none|",
		strings.TrimSuffix(long, ".jpg") + "|jpg", strings.TrimSuffix(most, ".jp") + "|jp",
		"line\nbreak|jpg", "grün|jpg|cls", strings.Repeat("g", 200) + "|jpg",
	}
	if d := cmp.Diff(want, keys(got)); d != "" {
		t.Error(d)
	}
}

// TestScan_NameWithoutADotJoinsItsKey checks that a name without a dot joins the adjacent sample
// with the same key. WebDataset's own reader skips this member and groups the others the same way,
// so it finds one sample too.
func TestScan_NameWithoutADotJoinsItsKey(t *testing.T) {
	for _, c := range []struct{ names, want, reader []string }{
		{[]string{"README", "README.original"}, []string{"README||original"}, []string{"README|original"}},
		{[]string{"README.original", "README"}, []string{"README|original|"}, []string{"README|original"}},
		{[]string{"d.x/a.jpg", "d.x/a", "d.x/a.cls"}, []string{"d.x/a|jpg||cls"}, []string{"d.x/a|jpg|cls"}},
		{[]string{"README", "d/README.original"}, []string{"README|", "d/README|original"}, []string{"d/README|original"}},
		{[]string{"a", "b", "b.jpg"}, []string{"a|", "b||jpg"}, []string{"b|jpg"}},
		{[]string{"d/.hidden", "e"}, []string{"e|"}, []string{"d/|hidden"}}, // WebDataset's reader differs here
	} {
		var members []member
		for _, n := range c.names {
			members = append(members, member{name: n})
		}
		got, err := scan(archive(t, members...))
		if err != nil {
			t.Errorf("%q: %v", c.names, err)
		}
		if d := cmp.Diff(c.want, keys(got)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(c.reader, webdatasetGroups(c.names)); d != "" {
			t.Errorf("WebDataset's reader: %s", d)
		}
	}
}

// webdatasetGroups groups names by the pattern that WebDataset's reader uses and publishes. That
// reader skips names that do not match.
func webdatasetGroups(names []string) []string {
	pattern := regexp.MustCompile(`^((?:.*/|)[^.]+)[.]([^/]*)$`)
	var out []string
	last := ""
	for _, n := range names {
		m := pattern.FindStringSubmatch(n)
		if m == nil {
			continue
		}
		if len(out) == 0 || m[1] != last {
			out, last = append(out, m[1]), m[1]
		}
		out[len(out)-1] += "|" + m[2]
	}
	return out
}

func TestRefusals(t *testing.T) {
	spoiled := archive(t, member{name: "a.jpg"})
	spoiled[3] ^= 1
	for want, b := range map[string][]byte{
		"symbolic link":    archive(t, member{name: "l", kind: tar.TypeSymlink}),
		"hard link":        archive(t, member{name: "l", kind: tar.TypeLink}),
		"character device": archive(t, member{name: "l", kind: tar.TypeChar}),
		"block device":     archive(t, member{name: "l", kind: tar.TypeBlock}),
		"FIFO":             archive(t, member{name: "l", kind: tar.TypeFifo}),
		"longer than 4096": archive(t, member{name: strings.Repeat("d/", 2046) + "n.jpg"}),
		"sets \"path\"":    archive(t, member{kind: tar.TypeXGlobalHeader, records: map[string]string{"path": "x"}}),
		"sets \"size\"":    archive(t, member{kind: tar.TypeXGlobalHeader, records: map[string]string{"size": "1"}}),
		"two members of one sample have this name": archive(t, member{name: "a.jpg"}, member{name: "a.jpg"}),
		"header checksum is wrong":                 spoiled,
		"sparse file":                              sparse(t),
		"data follows a zero block":                append(archive(t, member{name: "a.jpg"}), "garbage"...),
	} {
		_, err := scan(b)
		var where *format.Error
		if !errors.As(err, &where) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestScan_VerifiesHeaderChecksums checks that a change of any byte in a member header or an
// extension header is rejected.
func TestScan_VerifiesHeaderChecksums(t *testing.T) {
	b := archive(t, member{name: "a.jpg", body: "x"}, member{name: strings.Repeat("p/", 150) + "b.jpg", body: "2"},
		member{name: strings.Repeat("g", 200) + ".jpg", format: tar.FormatGNU, body: "3"}, member{kind: tar.TypeXGlobalHeader, records: map[string]string{"comment": "c"}})
	headers := 0
	for at := 0; at < len(b); at += 512 {
		if string(b[at+257:at+262]) != "ustar" {
			continue
		}
		headers++
		for i := range 512 {
			b[at+i]++
			got, err := scan(b)
			var where *format.Error
			switch {
			case err == nil && i >= 148 && i < 156: // the checksum field, whose last two bytes are padding
			case !errors.As(err, &where):
				t.Fatalf("byte %d of the header at %d: got %v, %v", i, at, keys(got), err)
			}
			b[at+i]--
		}
	}
	if headers != 6 {
		t.Errorf("got %d headers, want 6", headers)
	}
}

// TestScan_RejectsLongMembers checks that a member whose declared length exceeds the maximum for a
// sample is rejected before its content is read.
func TestScan_RejectsLongMembers(t *testing.T) {
	for _, size := range []int64{format.MaxSample + 1, 1 << 35, 1 << 61} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "a.jpg", Size: size, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		_, err := scan(b.Bytes())
		var where *format.Error
		if !errors.As(err, &where) || where.Name != "a.jpg" || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes exceed the limit", size)) {
			t.Errorf("got %v, want one that names a.jpg and its %d bytes", err, size)
		}
	}
}

// heapSink is a Sink that records the heap size when a sample begins and when it ends.
type heapSink struct {
	scantest.Nothing
	before, after uint64
}

func (h *heapSink) Data(s *format.Sample, _ []byte) error {
	if h.before == 0 {
		h.before = inUse()
	}
	return nil
}

func (h *heapSink) End(*format.Sample) error { h.after = inUse(); return nil }

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestScan_RetainsOnlyExtensions checks that a scan retains only the extensions of a sample's
// members, not their whole names.
func TestScan_RetainsOnlyExtensions(t *testing.T) {
	var members []member
	for i := range 4000 {
		members = append(members, member{name: strings.Repeat("k", 4000) + fmt.Sprintf(".%d", i)})
	}
	b := archive(t, members...)
	var h heapSink
	d, err := webdataset.Format().Survey(t.Context(), scantest.Objects{"a.tar": b}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Scan(t.Context(), 0, bytes.NewReader(b), &h); err != nil {
		t.Fatal(err)
	}
	if got := int64(h.after) - int64(h.before); got > 2<<20 {
		t.Errorf("got %d bytes more at the end of a sample of %d members", got, len(members))
	}
	runtime.KeepAlive(members)
	runtime.KeepAlive(b)
}

// sparse returns an archive with a GNU sparse member. It modifies the type and the checksum of a
// regular member.
func sparse(t *testing.T) []byte {
	t.Helper()
	b := archive(t, member{name: "s.jpg", format: tar.FormatGNU})
	b[156] = 'S'
	indextest.MendTar(b)
	return b
}

// TestTruncated checks that a truncated archive is rejected, unless it ends between members.
func TestTruncated(t *testing.T) {
	b := archive(t, member{name: "a.jpg", body: strings.Repeat("x", 700)}, member{name: "a.cls", body: "1"},
		member{name: strings.Repeat("p/", 150) + "b.jpg", body: "2"}, member{name: "c", body: ""})
	whole, err := scan(b)
	if err != nil {
		t.Fatal(err)
	}
	clean := map[int]int{0: 0, 512 + 1024: 1, 512 + 1024 + 1024: 1}
	for i, s := range whole[1:] {
		clean[int(s.Offset+s.Length)] = i + 2
	}
	for n := range b {
		got, err := scan(b[:n])
		end := int(whole[len(whole)-1].Offset + whole[len(whole)-1].Length)
		if n > end { // the archive ends inside the end-of-archive blocks, of which even the first may be missing
			if (n-end)%512 == 0 && err != nil {
				t.Errorf("cut at %d: got %v", n, err)
			}
			continue
		}
		if want, ok := clean[n]; ok {
			if err != nil || len(got) != want {
				t.Errorf("cut at %d: got %d samples and %v, want %d", n, len(got), err, want)
			}
		} else if err == nil {
			t.Errorf("cut at %d: got no error", n)
		}
	}
}

// TestScan_OtherArchivers checks that a scan finds the same contents as archive/tar, in archives of
// GNU tar and Python in all their formats.
func TestScan_OtherArchivers(t *testing.T) {
	dir := t.TempDir()
	for i, n := range []string{"a.jpg", "a.cls", "b.tar.gz", "grün.txt", strings.Repeat("n", 90) + ".jpg", "x y.z", "empty.bin"} {
		if err := os.WriteFile(filepath.Join(dir, n), bytes.Repeat([]byte{'0' + byte(i)}, 300*i%1300), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	deep := filepath.Join(dir, strings.Repeat("deep/", 12))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, strings.Repeat("m", 80)+".jpg"), []byte("deep"), 0o644); err != nil {
		t.Fatal(err)
	}
	py := "import sys,tarfile\nt=tarfile.open(sys.argv[1],'w',format=getattr(tarfile,sys.argv[2]))\nt.add(sys.argv[3],'.')\nt.close()"
	out := t.TempDir()
	for _, c := range [][]string{
		{"tar", "--format=gnu", "-cf", "OUT", "-C", dir, "."},
		{"tar", "--format=pax", "-cf", "OUT", "-C", dir, "."},
		{"tar", "--format=ustar", "-cf", "OUT", "-C", dir, "."},
		{"python3", "-c", py, "OUT", "GNU_FORMAT", dir},
		{"python3", "-c", py, "OUT", "PAX_FORMAT", dir},
		{"python3", "-c", py, "OUT", "USTAR_FORMAT", dir},
	} {
		path := filepath.Join(out, "x.tar")
		for i := range c {
			if c[i] == "OUT" {
				c[i] = path
			}
		}
		if msg, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c[:2], err, msg)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := scan(b)
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		if d := compare(b, got); d != "" {
			t.Errorf("%v: %s", c, d)
		}
	}
}

// compare returns the differences between the members that a scan found and the members that
// archive/tar reads.
func compare(b []byte, got []scantest.Sample) string {
	type file struct{ Name, Body string }
	var want, have []file
	in := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ""
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader || format.Hidden(h.Name) {
			continue
		}
		body, err := io.ReadAll(in)
		if err != nil {
			return ""
		}
		want = append(want, file{h.Name, string(body)})
	}
	for _, s := range got {
		sample := b[s.Offset : s.Offset+s.Length]
		for _, p := range s.Parts {
			name := s.Key
			if p.Ext != "" {
				name += "." + p.Ext
			}
			have = append(have, file{name, string(sample[p.Offset : p.Offset+p.Length])})
		}
	}
	for i := range want { // the member "a." has an empty extension
		if i < len(have) && have[i].Name+"." == want[i].Name {
			have[i].Name += "."
		}
	}
	return cmp.Diff(want, have)
}

func FuzzScanTar(f *testing.F) {
	f.Add(archive(f, member{name: "a.jpg", body: "x"}, member{name: "a.cls", body: "1"}))
	f.Add(archive(f, member{name: strings.Repeat("p/", 150) + "b.jpg", body: "2"}))
	f.Add(archive(f, member{name: strings.Repeat("g", 200), body: "2", format: tar.FormatGNU}))
	f.Add(archive(f, member{kind: tar.TypeXGlobalHeader, records: map[string]string{"comment": "c"}}, member{name: "d/", kind: tar.TypeDir}))
	f.Add(archive(f, member{name: "._a.jpg", body: "m"}, member{name: "a.jpg", body: "x"}, member{name: "._a.cls", body: "m"}, member{name: "a.cls", body: "1"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		indextest.MendTar(b)
		got, err := scan(b)
		if err != nil {
			return
		}
		if d := compare(b, got); d != "" {
			t.Error(d)
		}
	})
}
