package zip_test

import (
	archive "archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/format/zip"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// entry is a member of a test archive.
type entry struct {
	name, content string
	method        uint16
}

// write returns an archive. With raw, the headers contain lengths and checksums. Otherwise these
// follow the contents.
func write(t testing.TB, raw bool, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out)
	for _, e := range entries {
		h := &archive.FileHeader{Name: e.name, Method: e.method}
		var err error
		var to io.Writer
		if raw && e.method == archive.Store {
			h.CRC32, h.CompressedSize64, h.UncompressedSize64 = crc32.ChecksumIEEE([]byte(e.content)), uint64(len(e.content)), uint64(len(e.content))
			to, err = w.CreateRaw(h)
		} else {
			to, err = w.CreateHeader(h)
		}
		if err == nil && !strings.HasSuffix(e.name, "/") {
			_, err = to.Write([]byte(e.content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sample(key, ext string, offset, length int) scantest.Sample {
	return scantest.Sample{Key: key, Offset: int64(offset), Length: int64(length), Parts: []scantest.Part{{Ext: ext, Length: int64(length)}}}
}

func TestSamples(t *testing.T) {
	long := strings.Repeat("long ", 100_000)
	n := len(long)
	objects := scantest.Objects{"a.zip": write(t, false,
		entry{"d/", "", 0}, entry{"d/1.jpg", "one", 0}, entry{"d/frame.0001.png", long, archive.Deflate}, entry{"d/._1.jpg", "resource", 0},
		entry{"2.nii.gz", "two", archive.Deflate}, entry{"__MACOSX/2.jpg", "hidden", 0}, entry{"README", "about", 0},
	), "b.ZIP": nil, "README.md": nil}
	scantest.Finds(t, zip.Format(), format.Options{}, objects, map[string][]scantest.Sample{
		"a.zip": {sample("d/1", "jpg", 0, 3), sample("d/frame", "0001.png", 3, n), sample("2", "nii.gz", n+3, 3), sample("README", "", n+6, 5)},
		"b.ZIP": nil,
	})
	// Stored members are found as ranges of the archive.
	for _, raw := range []bool{true, false} {
		b := write(t, raw, entry{"1.jpg", "one", 0}, entry{".x", "hidden", 0}, entry{"2.jpg", "three", 0})
		at := func(content string) int { return strings.Index(string(b), content) }
		scantest.Finds(t, zip.Format(), format.Options{Named: true}, scantest.Objects{"a": b},
			map[string][]scantest.Sample{"a": {sample("1", "jpg", at("one"), 3), sample("2", "jpg", at("three"), 5)}})
	}
}

// parts returns a sample whose parts have the offsets of these contents in the archive.
func parts(b []byte, key string, of ...string) scantest.Sample {
	var s scantest.Sample
	for i := 0; i < len(of); i += 2 {
		at := int64(strings.Index(string(b), of[i+1]))
		if i == 0 {
			s = scantest.Sample{Key: key, Offset: at}
		}
		s.Length = at + int64(len(of[i+1])) - s.Offset
		s.Parts = append(s.Parts, scantest.Part{Ext: of[i], Offset: at - s.Offset, Length: int64(len(of[i+1]))})
	}
	return s
}

// TestGrouping checks that members, stored or deflated, form samples like the members of a tar.
func TestGrouping(t *testing.T) {
	members := func(method uint16) []entry {
		return []entry{
			{"d/", "", 0},
			{"d/1.jpg", "<one>", method},
			{"d/._1.txt", "finder", method},
			{"d/1.txt", "<words>", method},
			{"d/1.seg.png", "<mask>", method},
			{"d/2.jpg", "<two>", method},
			{"e/", "", 0},
			{"e/2.jpg", "<other>", method},
			{"README", "<about>", method},
			{"3.cls", "", method},
			{"3.jpg", "<three>", method},
		}
	}
	for name, c := range map[string]struct {
		archive []byte
		lies    string // text that contains the samples; empty: the archive
	}{
		"stored, sums behind": {write(t, false, members(archive.Store)...), ""},
		"stored, sums before": {write(t, true, members(archive.Store)...), ""},
		"deflated":            {write(t, false, members(archive.Deflate)...), "<one><words><mask><two><other><about><three>"},
		"stored and deflated": {write(t, false, append(members(archive.Store), entry{"4.jpg", "<four>", archive.Deflate})...), "<one><words><mask><two><other><about><three><four>"},
	} {
		t.Run(name, func(t *testing.T) {
			b := []byte(c.lies)
			if c.lies == "" {
				b = c.archive
			}
			three := parts(b, "3", "jpg", "<three>")
			empty := scantest.Part{Ext: "cls"}
			if c.lies == "" { // the header of the sample's second member is between its parts
				head := int64(30 + len("3.jpg"))
				if strings.Contains(name, "behind") {
					head += 16 // length of the checksum and lengths that follow the empty member
				}
				three.Offset, three.Length, three.Parts[0].Offset = three.Offset-head, three.Length+head, head
			}
			three.Parts = append([]scantest.Part{empty}, three.Parts...)
			want := []scantest.Sample{
				parts(b, "d/1", "jpg", "<one>", "txt", "<words>", "seg.png", "<mask>"), parts(b, "d/2", "jpg", "<two>"), parts(b, "e/2", "jpg", "<other>"), parts(b, "README", "", "<about>"), three,
			}
			if strings.HasSuffix(c.lies, "<four>") {
				want = append(want, parts(b, "4", "jpg", "<four>"))
			}
			scantest.Finds(t, zip.Format(), format.Options{}, scantest.Objects{"a.zip": c.archive}, map[string][]scantest.Sample{"a.zip": want})
		})
	}
}

// TestScan_RejectsReservedNames checks that names that WebDataset's reader would mishandle are
// rejected, as in a tar.
func TestScan_RejectsReservedNames(t *testing.T) {
	for want, members := range map[string][]entry{
		`"1.jpg" at offset 36: two members of one sample have this name`: {{"1.jpg", "a", 0}, {"1.jpg", "b", 0}},
		"differ only in case": {{"1.jpg", "a", 0}, {"1.JPG", "b", 0}},
		"skips members":       {{"__meta__", "a", 0}},
		"is reserved":         {{"1.__key__", "a", 0}},
		`"1.cls" at offset 0: all members of its sample`:  {{"1.cls", "", 0}, {"1.txt", "", 0}, {"2.txt", "x", 0}},
		`"2.cls" at offset 36: all members of its sample`: {{"1.cls", "x", 0}, {"2.cls", "", 0}},
	} {
		scantest.Refuses(t, zip.Format(), format.Options{}, scantest.Objects{"a.zip": write(t, true, members...)}, want)
	}
}

// TestEachMember checks that, with KeyPath, each member is a sample with a unique key.
func TestEachMember(t *testing.T) {
	pair := scantest.Objects{"a.zip": write(t, false, entry{"1.jpg", "one", 8}, entry{"2.jpg", "two", 8}, entry{"1.tar.png", "1", 8}, entry{"1.png", "1", 8})}
	scantest.Finds(t, zip.Format(), format.Options{Key: format.KeyPath}, pair, map[string][]scantest.Sample{
		"a.zip": {sample("1_jpg", "jpg", 0, 3), sample("2", "jpg", 3, 3), sample("1_tar", "png", 6, 1), sample("1_png", "png", 7, 1)},
	})
}

// TestScan_LongHiddenMembersEndASample checks that hidden members between two members of a sample
// become part of the sample, up to a maximum length. Longer hidden members must end the sample.
func TestScan_LongHiddenMembersEndASample(t *testing.T) {
	for _, n := range []int{1 << 19, 1 << 20} {
		b := write(t, true, entry{"1.jpg", "one", 0}, entry{"._1", strings.Repeat("x", n), 0}, entry{"1.txt", "two", 0})
		found, err := scantest.Scan(t.Context(), zip.Format(), format.Options{}, scantest.Objects{"a.zip": b})
		if want := 1 + n>>20; err != nil || len(found["a.zip"]) != want {
			t.Errorf("%d bytes: got %d samples, %v, want %d", n, len(found["a.zip"]), err, want)
		}
	}
}

func TestScan_DirectoriesEndASample(t *testing.T) {
	for _, method := range []uint16{archive.Store, archive.Deflate} {
		b := write(t, false, entry{"1.jpg", "one", method}, entry{"d/", "", 0}, entry{"1.txt", "two", method})
		if found, err := scantest.Scan(t.Context(), zip.Format(), format.Options{}, scantest.Objects{"a.zip": b}); err != nil || len(found["a.zip"]) != 2 {
			t.Errorf("got %+v, %v, want two samples of one key", found, err)
		}
	}
}

// TestAssumed_NamesJoinedMembers checks that Assumed names a sample with several members, and the
// flag that separates them.
func TestAssumed_NamesJoinedMembers(t *testing.T) {
	objects := scantest.Objects{
		"a.zip": write(t, true, entry{"0.jpg", "zero", 0}),
		"b.zip": write(t, true, entry{"f.0001.png", "one", 0}, entry{"f.0002.png", "two", 0}, entry{"f.0003.png", "three", 0}),
		"c.zip": write(t, true, entry{"1.jpg", "one", 0}, entry{"1.txt", "two", 0}),
	}
	for key, want := range map[string]string{"": `such as "f.0001.png" and "f.0002.png": use --sample-key path to make each member a sample`, format.KeyPath: ""} {
		d, err := zip.Format().Survey(t.Context(), objects, format.Options{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		for i := 2; i >= 0; i-- {
			in, err := d.Decode(t.Context(), i, ranges(objects[d.Shards[i].Key]))
			if err == nil {
				err = d.Scan(t.Context(), i, in, scantest.Nothing{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := d.Assumed(); !strings.Contains(got, want) || want == "" && got != "" || (d.Shards[0].Says == "") != (key == "") {
			t.Errorf("key %q: got %q, want %q", key, got, want)
		}
	}
}

func TestSurvey(t *testing.T) {
	if d, err := zip.Format().Survey(t.Context(), scantest.Objects{"a.zip": nil, "b.jpg": nil}, format.Options{}); d != nil || err != nil {
		t.Errorf("among pictures: got %v, %v", d, err)
	}
	if d, err := zip.Format().Survey(t.Context(), scantest.Objects{"a.zip.gz": nil}, format.Options{}); d != nil || err == nil || !strings.Contains(err.Error(), "compressed as a whole") {
		t.Errorf("compressed: got %v, %v", d, err)
	}
	if f, err := framing.Read("zip", nil); f != nil || err != nil {
		t.Errorf("got framing %v, %v", f, err)
	}
}

func TestHiddenMembers(t *testing.T) {
	objects := scantest.Objects{"a.zip": write(t, true, entry{"1.jpg", "one", 0}, entry{"._1.jpg", "x", 0}, entry{".git/config", "x", 0})}
	for _, hidden := range []bool{false, true} {
		d, err := zip.Format().Survey(t.Context(), objects, format.Options{Hidden: hidden})
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Decode(t.Context(), 0, ranges(objects["a.zip"]))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Scan(t.Context(), 0, in, scantest.Nothing{}); err != nil {
			t.Fatal(err)
		}
		if got := d.HiddenMembers(); hidden && got != 0 || !hidden && got != 2 {
			t.Errorf("taken: %v: got %d hidden members", hidden, got)
		}
		if (d.Shards[0].Says != "") != hidden {
			t.Errorf("taken: %v: a scan depends on %q", hidden, d.Shards[0].Says)
		}
	}
}

// ranges is an archive in memory that implements format.Ranges.
type ranges []byte

func (r ranges) ReadRange(_ context.Context, offset int64, p []byte) error {
	_, err := io.ReadFull(io.NewSectionReader(bytes.NewReader(r), offset, int64(len(p))), p)
	return err
}

// TestFramesDecode checks that the frames and parameters of each run of members decode to their
// contents.
func TestFramesDecode(t *testing.T) {
	long := strings.Repeat("0123456789", 5000)
	b := write(t, false, entry{"1.a", long, archive.Deflate}, entry{"d/", "", 0}, entry{"2.a", "stored", 0}, entry{".hidden", long, 0}, entry{"3.a", long[:777], archive.Deflate})
	want := long + "stored" + long[:777]
	d, err := zip.Format().Survey(t.Context(), scantest.Objects{"a.zip": b}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Decode(t.Context(), 0, ranges(b))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != want || in.Codec != codec.Zip {
		t.Fatalf("got %d bytes, %v, by %v", len(got), err, in.Codec)
	}
	borders := []int{0, len(long), len(long) + 6, len(want)}
	for i, first := range borders[:3] {
		for _, end := range borders[i+1:] {
			f, ok := in.Frames.At(int64(first))
			l, _ := in.Frames.At(int64(end - 1))
			params, _ := in.Frames.Params(int64(first), int64(end-1))
			dst := make([]byte, end-first)
			stored := b[f.Stored:l.StoredEnd]
			if err := codec.Decode(codec.Zip, params, stored, 0, dst); !ok || err != nil || string(dst) != want[first:end] {
				t.Errorf("bytes %d to %d: %v", first, end, err)
			}
			for n := range len(params) {
				if codec.Decode(codec.Zip, params[:n], stored, 0, dst) == nil {
					t.Errorf("bytes %d to %d: %d bytes of parameters are enough", first, end, n)
				}
			}
			if codec.Decode(codec.Zip, params, stored, 1, dst) == nil || codec.Decode(codec.Zip, params, stored[:33], 0, dst) == nil || codec.Decode(codec.Zip, params, stored, 0, dst[1:]) == nil {
				t.Errorf("bytes %d to %d: got no error for another chunk", first, end)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	good := write(t, true, entry{"1.jpg", "one", 0}, entry{"2.jpg", "two", 0})
	deflated := write(t, false, entry{"1.jpg", strings.Repeat("one", 100), archive.Deflate})
	directory := bytes.Index(good, []byte("PK\x01\x02"))
	second := bytes.LastIndex(good, []byte("PK\x03\x04"))
	hidden := write(t, true, entry{"1.jpg", "one", 0}, entry{".x", "more", 0}, entry{"2.jpg", "two", 0})
	end := len(good) - 22
	// with returns a copy of an archive in which other bytes are at an offset.
	with := func(b []byte, at int, bytes ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[at:], bytes)
		return b
	}
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"nothing at its end":             {good[:end], "it does not end like a zip archive"},
		"another kind of file":           {[]byte("hello"), "it does not end like a zip archive"},
		"bytes before it":                {append([]byte("#!/bin/sh\n"), good...), "preceded by other bytes"},
		"encrypted":                      {with(good, directory+8, 1), `"1.jpg" at offset 0: it is encrypted`},
		"method 12":                      {with(good, directory+10, 12), "compressed by method 12 (bzip2), which is not supported: recreate the archive with zip -Z deflate"},
		"method 7":                       {with(good, directory+10, 7), "compressed by method 7, which"},
		"one of several parts":           {with(good, end+4, 1), "join the parts with zip -s 0"},
		"a member in another part":       {with(good, directory+34, 1), "another part of a multi-part archive"},
		"a link":                         {with(with(good, directory+5, 3), directory+38, 0, 0, 0xff, 0xa1), "it is a link"},
		"more members":                   {with(good, end+8, 1, 0, 1, 0), "has more members than its end record"},
		"fewer members":                  {with(good, end+8, 3, 0, 3, 0), "too few for the members"},
		"a directory of no bytes":        {with(good, end+12, 0, 0, 0, 0), "too few for the members"},
		"other names":                    {with(good, second+30, 'x'), `"2.jpg" at offset 38: its header and the directory entry differ`},
		"other lengths":                  {with(good, second+18, 2), "differ in length or checksum"},
		"another method":                 {with(good, second+8, 8), "directory entry differ"},
		"no header":                      {with(good, second, 'x'), "there is no header at the offset in the directory"},
		"another content":                {with(good, second+35, 'x'), "its checksum is wrong"},
		"overlap":                        {with(good, directory+20, 9, 0, 0, 0, 9), "extends into the next member"},
		"two at one place":               {with(good, len(good)-22-9, 0), "extends into the next member"},
		"a hidden header without end":    {with(hidden, second+28, 0xff, 0xff), `".x" at offset 38: it extends into the next member`},
		"another deflated content":       {with(deflated, 36, 0xff), "its content does not decode"},
		"a bomb that lies":               {withLength(deflated, 299), "more bytes than the directory records"},
		"fewer bytes than it says":       {withLength(deflated, 301), "it has 300 bytes"},
		"a name with a backslash":        {write(t, true, entry{`d\1.jpg`, "one", 0}), "backslash"},
		"a name that is not UTF-8":       {write(t, true, entry{"\xff.jpg", "one", 0}), "not UTF-8"},
		"stored in other than its bytes": {with(good, directory+24, 9), "it is not compressed, but its stored size is 3 bytes and its size 9"},
	} {
		t.Run(name, func(t *testing.T) {
			scantest.Refuses(t, zip.Format(), format.Options{}, scantest.Objects{"a.zip": c.archive}, c.want)
		})
	}
}

// TestZip_VerifiesChecksums checks that a wrong checksum is detected even if the content decodes.
func TestZip_VerifiesChecksums(t *testing.T) {
	for _, method := range []uint16{archive.Store, archive.Deflate} {
		b := write(t, method == archive.Store, entry{"1.jpg", "one", method})
		for _, magic := range []string{"PK\x03\x04", "PK\x01\x02"} {
			at := strings.Index(string(b), magic) + map[string]int{"PK\x03\x04": 14, "PK\x01\x02": 16}[magic]
			if method == archive.Store || magic == "PK\x01\x02" { // the header of a deflated member contains no checksum
				b[at] ^= 1
			}
		}
		scantest.Refuses(t, zip.Format(), format.Options{}, scantest.Objects{"a.zip": b}, "checksum")
	}
}

// withLength returns an archive with one deflated member, for which the directory states this
// length.
func withLength(b []byte, length uint32) []byte {
	b = bytes.Clone(b)
	at := bytes.Index(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[at+24:], length)
	return b
}

// TestZip64 checks that the values in a Zip64 field are used if the other fields overflow.
func TestZip64(t *testing.T) {
	var entries []entry
	for range 70_000 {
		entries = append(entries, entry{"d/", "", 0})
	}
	b := write(t, true, append(entries, entry{"1.jpg", "one", 0})...)
	found, err := scantest.Scan(t.Context(), zip.Format(), format.Options{}, scantest.Objects{"a.zip": b})
	if err != nil || len(found["a.zip"]) != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
	end := len(b) - 22
	other := bytes.Clone(b)
	binary.LittleEndian.PutUint32(other[end+12:], 46)
	scantest.Refuses(t, zip.Format(), format.Options{}, scantest.Objects{"a.zip": other}, "its end records with and without Zip64 do not agree")
}

// failing is a store whose reads fail at an offset.
type failing struct {
	ranges
	at int64
}

func (f failing) ReadRange(ctx context.Context, offset int64, p []byte) error {
	if offset <= f.at && f.at < offset+int64(len(p)) {
		return scantest.ErrBroken
	}
	return f.ranges.ReadRange(ctx, offset, p)
}

// FuzzScanZip checks that an archive is either rejected, or Go's archive/zip finds the same
// contents under the same names.
func FuzzScanZip(f *testing.F) {
	f.Add(write(f, true, entry{"1.jpg", "one", 0}, entry{"1.cls", "7", 0}, entry{"2.jpg", "two", 0}))
	f.Add(write(f, false, entry{"1.jpg", strings.Repeat("one", 50), archive.Deflate}, entry{"._1", "x", 0}, entry{"d/", "", 0}, entry{"2.jpg", "two", 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		objects := scantest.Objects{"a.zip": b}
		found, err := scantest.Scan(t.Context(), zip.Format(), format.Options{}, objects)
		if err != nil {
			scantest.Refused(t, err)
			return
		}
		if len(b) == 0 {
			return
		}
		d, err := zip.Format().Survey(t.Context(), objects, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Decode(t.Context(), 0, ranges(b))
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		r, err := archive.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatalf("%q is accepted, but the library rejects it: %v", b, err)
		}
		want, unread := map[string]string{}, map[string]bool{} // unread: archive/zip rejects members with a wrong descriptor, which only sequential readers use
		for _, file := range r.File {
			in, err := file.Open()
			var content []byte
			if err == nil {
				content, err = io.ReadAll(in)
			}
			want[file.Name], unread[file.Name] = string(content), err != nil
		}
		for _, s := range found["a.zip"] {
			for _, p := range s.Parts {
				found := false
				got := string(decoded[s.Offset+p.Offset : s.Offset+p.Offset+p.Length])
				for name, content := range want {
					key, ext := naming.Member(name)
					found = found || key == s.Key && ext == p.Ext && (unread[name] || content == got)
				}
				if !found {
					t.Fatalf("%q: got %q of %s, which none of %q is", b, got, s.Key, want)
				}
			}
		}
	})
}

// TestFaultOfTheStore checks that a store error at any offset is not mistaken for the end of an
// archive.
func TestFaultOfTheStore(t *testing.T) {
	for _, method := range []uint16{archive.Store, archive.Deflate} {
		b := write(t, method == archive.Store, entry{"1.jpg", "one", method}, entry{"2.jpg", "two", method})
		for at := range int64(len(b)) {
			d, err := zip.Format().Survey(t.Context(), scantest.Objects{"a.zip": b}, format.Options{})
			if err != nil {
				t.Fatal(err)
			}
			in, err := d.Decode(t.Context(), 0, failing{b, at})
			if err == nil {
				err = d.Scan(t.Context(), 0, in, scantest.Nothing{})
			}
			if err == nil || !strings.Contains(err.Error(), scantest.ErrBroken.Error()) {
				t.Fatalf("byte %d: got %v", at, err)
			}
		}
	}
}

// TestScan_RejectsLongSamples checks that members whose total length exceeds the limit are rejected
// before they are read.
func TestScan_RejectsLongSamples(t *testing.T) {
	b := write(t, false, entry{"f.1.png", "one", archive.Deflate}, entry{"f.2.png", "two", archive.Deflate})
	for at, magic := 0, []byte("PK\x01\x02"); bytes.Contains(b[at:], magic); at += 24 {
		at += bytes.Index(b[at:], magic)
		binary.LittleEndian.PutUint32(b[at+24:], 600<<20)
	}
	objects := scantest.Objects{"a.zip": b}
	scantest.Refuses(t, zip.Format(), format.Options{}, objects, `together with "f.1.png" and the other members of the same key, it exceeds the maximum sample length of 1073741824 bytes: use --sample-key path`)
	scantest.Refuses(t, zip.Format(), format.Options{Key: format.KeyPath}, objects, "it has 3 bytes")
}
