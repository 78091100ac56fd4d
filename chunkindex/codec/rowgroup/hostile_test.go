package rowgroup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// failed reports whether a decoder failed because of a panic, which is a bug for any input.
func failed(err error) bool {
	return err != nil && strings.Contains(err.Error(), "decoder of row groups failed")
}

// TestDecode_Flips changes each byte of a file. The file must be read, perhaps with wrong values,
// or be rejected. The decoder must neither panic nor allocate much memory.
func TestDecode_Flips(t *testing.T) {
	all := golden(t)
	for _, name := range []string{"compressed-snappy-v1", "compressed-zstd-v2", "encoded-delta-v1", "nested", "types-int96"} {
		file := bytes.Clone(all[name])
		refused := 0
		step := 1 + len(file)/4096
		for i := 0; i < len(file); i += step {
			for _, flip := range []byte{0x01, 0xff} {
				file[i] ^= flip
				if _, _, err := read(file); failed(err) {
					t.Fatalf("%s, byte %d ^ %#x: %v", name, i, flip, err)
				} else if err != nil {
					refused++
				}
				file[i] ^= flip
			}
		}
		if refused < len(file)/step/8 {
			t.Errorf("%s: %d of %d flips were refused, want more", name, refused, 2*len(file)/step)
		}
	}
}

// TestDecode_VerifiesChecksums checks that a wrong byte in any page with a checksum is detected.
func TestDecode_VerifiesChecksums(t *testing.T) {
	file := bytes.Clone(golden(t)["checksums"])
	f, _, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range f.Groups[0].Frame.Length {
		at := f.Groups[0].Offset + i
		file[at] ^= 0x40
		if _, _, err := read(file); err != nil && strings.Contains(err.Error(), "checksum of a page") {
			found++
		}
		file[at] ^= 0x40
	}
	if found < 500 {
		t.Errorf("the checksums tell of %d wrong bytes of %d, want most of them", found, f.Groups[0].Frame.Length)
	}
}

// TestDecode_TruncatedGroups checks that truncated row groups are rejected.
func TestDecode_TruncatedGroups(t *testing.T) {
	for name, file := range golden(t) {
		f, groups, err := read(file)
		if err != nil || len(f.Groups) == 0 {
			continue
		}
		params, stored := chunk(file, f.Groups[:1])
		dst := make([]byte, len(groups[0]))
		for n := range stored {
			if n > 50 && n < len(stored)-50 && n%37 != 0 {
				continue
			}
			if err := rowgroup.Decode(params, stored[:n:n], dst, nil); err == nil || failed(err) {
				t.Fatalf("%s, %d bytes of %d: got %v, want an error", name, n, len(stored), err)
			}
		}
	}
}

// Physical types, codecs and encodings that the handmade row groups use.
const (
	int64Leaf  = 0x20
	bytesLeaf  = 0x60
	nullable   = 0x04
	listNode   = 0x02
	snappyPack = 1
	zstdPack   = 6
	plain      = 0
	dictionary = 8
	deltaBytes = 7
)

// handmade describes a row group with one column.
type handmade struct {
	rows   uint64
	nodes  []byte // nodes of the column
	codec  uint64
	values uint64
	pages  []byte
}

func (h handmade) frame(t *testing.T) *rowgroup.Frame {
	t.Helper()
	b := []byte{1, 0}
	b = binary.AppendUvarint(b, uint64(len(h.pages)))
	b = append(binary.AppendUvarint(b, h.rows), 1)
	b = append(b, h.nodes...)
	for _, v := range []uint64{h.codec, 0, uint64(len(h.pages)), h.values} {
		b = binary.AppendUvarint(b, v)
	}
	f, err := rowgroup.ParseParams(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// page returns a page of version 1, or a dictionary page, whose header has these numbers. A
// negative raw means that the page is not compressed.
func page(isDictionary bool, raw, values, encoding int64, body []byte) []byte {
	if raw < 0 {
		raw = int64(len(body))
	}
	kind, field := int64(0), byte(0x2c) // the field ID of the data header is two higher
	if isDictionary {
		kind, field = 2, 0x4c
	}
	b := binary.AppendVarint([]byte{0x15}, kind)
	b = binary.AppendVarint(append(b, 0x15), raw)
	b = binary.AppendVarint(append(b, 0x15), int64(len(body)))
	b = append(b, field)
	b = binary.AppendVarint(append(b, 0x15), values)
	b = binary.AppendVarint(append(b, 0x15), encoding)
	return append(append(b, 0, 0), body...)
}

// run returns encoded levels or dictionary numbers: a run of n equal values.
func run(n uint64, value byte) []byte { return append(binary.AppendUvarint(nil, n<<1), value) }

// levelled prepends the length of levels to the levels.
func levelled(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// TestDecode_HostilePages checks that headers with false sizes, numbers outside the dictionary and
// similar faults are rejected by name and allocate no memory.
func TestDecode_HostilePages(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := w.EncodeAll(make([]byte, 64<<20), nil)
	entry := []byte{1, 0, 0, 0, 'x'}
	const many = 1<<31 - 1
	for name, c := range map[string]struct {
		handmade
		want string
	}{
		"gigabytes of snappy":  {handmade{1, []byte{int64Leaf}, snappyPack, 1, page(false, many, 1, plain, []byte("12345678"))}, "claims"},
		"gigabytes of zstd":    {handmade{1, []byte{int64Leaf}, zstdPack, 1, page(false, many, 1, plain, bomb[:100])}, "claims"},
		"a bomb of zstd":       {handmade{1, []byte{int64Leaf}, zstdPack, 1, page(false, 8, 1, plain, bomb)}, "decompress"},
		"pages without values": {handmade{1, []byte{int64Leaf}, 0, 1, bytes.Repeat(page(false, 0, 0, plain, nil), 1000)}, "page header"},
		"rows without values":  {handmade{1 << 60, []byte{int64Leaf}, 0, 0, nil}, "numbers of rows"},
		"rows of nulls":        {handmade{1 << 60, []byte{int64Leaf | nullable}, 0, 1 << 60, page(false, -1, many, plain, levelled(run(1<<40, 0)))}, "longer than the limit"},
		"more values":          {handmade{1, []byte{int64Leaf}, 0, 2, page(false, 16, 2, plain, make([]byte, 16))}, "numbers of rows"},
		"a list without end":   {handmade{1, []byte{listNode, int64Leaf}, 0, many, page(false, -1, many, plain, append(levelled(append(run(1, 0), run(many, 1)...)), levelled(run(many, 1))...))}, "longer than the limit"},
		"a list of nulls":      {handmade{1, []byte{listNode, bytesLeaf | nullable}, 0, many, page(false, -1, many, plain, append(levelled(append(run(1, 0), run(many, 1)...)), levelled(run(many, 1))...))}, "longer than the limit"},
		"a place outside":      {handmade{1, []byte{bytesLeaf}, 0, 1, append(page(true, 5, 1, plain, entry), page(false, 3, 1, dictionary, append([]byte{1}, run(1, 1)...))...)}, "value 1 of a dictionary of 1"},
		"a wrong dictionary":   {handmade{1, []byte{bytesLeaf}, 0, 1, page(true, 5, many, plain, entry)}, "dictionary"},
		"no dictionary":        {handmade{1, []byte{bytesLeaf}, 0, 1, page(false, 3, 1, dictionary, append([]byte{1}, run(1, 0)...))}, "requires a dictionary"},
		"two dictionaries":     {handmade{1, []byte{bytesLeaf}, 0, 1, bytes.Repeat(page(true, 5, 1, plain, entry), 2)}, "two dictionaries"},
		"a value outside":      {handmade{1, []byte{bytesLeaf}, 0, 1, page(false, 5, 1, plain, []byte{200, 0, 0, 0, 'x'})}, "malformed"},
		"a prefix of nothing":  {handmade{1, []byte{bytesLeaf}, 0, 1, page(false, -1, 1, deltaBytes, []byte{8, 1, 1, 10, 8, 1, 1, 2, 'x'})}, "malformed"},
		"deltas of 255 bits":   {handmade{2, []byte{int64Leaf}, 0, 2, page(false, -1, 2, 5, []byte{8, 1, 2, 0, 0, 255, 1})}, "malformed"},
		"an unknown encoding":  {handmade{1, []byte{int64Leaf}, 0, 1, page(false, 8, 1, 77, make([]byte, 8))}, "encoding 77"},
	} {
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		f := c.frame(t)
		d, err := rowgroup.NewDecoder(f, c.pages, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		for err == nil {
			b, err = d.Next(b, 1<<20)
		}
		d.Close()
		runtime.ReadMemStats(&is)
		if err == nil || failed(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if took := is.TotalAlloc - was.TotalAlloc; took > 24<<20 {
			t.Errorf("%s: took %d bytes of memory", name, took)
		}
	}
}

// TestReadFooter_Hostile checks that a footer's false sizes allocate no memory, and that
// unsupported files are rejected by name.
func TestReadFooter_Hostile(t *testing.T) {
	deep := bytes.Repeat([]byte{0x1c}, 1<<20)
	for name, c := range map[string]struct {
		footer []byte
		want   string
	}{
		"nothing":              {nil, "malformed"},
		"no schema":            {[]byte{0}, "schema"},
		"a list of a billion":  {[]byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f}, "malformed"},
		"a name of a terabyte": {append([]byte{0x29, 0x1c, 0x48}, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f), "malformed"},
		"nested without end":   {deep, "nested too deeply"},
		"encrypted":            {append([]byte{0x8c, 0, 0}, 0), "encrypted"},
	} {
		var was, is runtime.MemStats
		runtime.ReadMemStats(&was)
		_, err := rowgroup.ReadFooter(c.footer, 1<<30, nil)
		runtime.ReadMemStats(&is)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if took := is.TotalAlloc - was.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: took %d bytes of memory", name, took)
		}
	}
}

// TestDecoder_LimitsMemory checks that a row group that needs more memory than Room allows is
// detected in a scan and rejected by Decode.
func TestDecoder_LimitsMemory(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const long = 16 << 20
	value := append(binary.LittleEndian.AppendUint32(nil, long), make([]byte, long)...)
	used := append([]byte{1, 0, 0, 0, 'x'}, value...)
	h := handmade{1, []byte{bytesLeaf}, zstdPack, 1, append(
		page(true, int64(len(used)), 2, plain, w.EncodeAll(used, nil)),
		page(false, 3, 1, dictionary, w.EncodeAll(append([]byte{1}, run(1, 0)...), nil))...)}
	f := h.frame(t)
	d, err := rowgroup.NewDecoder(f, h.pages, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := d.Next(nil, rows.MaxRow)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Fits(int64(len(b))); err == nil || !strings.Contains(err.Error(), "row_group_size") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	if err := d.Fits(long); err != nil {
		t.Errorf("got %v for a row group of enough rows", err)
	}
	p := f.Params()
	err = rowgroup.Decode(append(binary.AppendUvarint(nil, uint64(len(p))), p...), h.pages, make([]byte, len(b)), nil)
	if err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v, want an error", err)
	}
}

func FuzzFile(f *testing.F) {
	for _, file := range golden(f) {
		if len(file) < 8<<10 {
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, _, err := values(file); failed(err) {
			t.Fatal(err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, file := range golden(f) {
		got, groups, err := read(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(got.Groups) > 0 && len(file) < 8<<10 {
			params, stored := chunk(file, got.Groups)
			f.Add(params, stored, len(bytes.Join(groups, nil)))
		}
	}
	f.Fuzz(func(t *testing.T, params, stored []byte, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		if err := rowgroup.Decode(params, stored[:len(stored):len(stored)], make([]byte, n), nil); failed(err) {
			t.Fatal(err)
		}
		frame, err := rowgroup.ParseParams(params)
		if err == nil && !bytes.Equal(frame.Params(), params) && !errors.Is(err, rows.ErrLimit) {
			again, err := rowgroup.ParseParams(frame.Params())
			if err != nil || !bytes.Equal(again.Params(), frame.Params()) {
				t.Fatalf("params %x are read, and written as %x", params, frame.Params())
			}
		}
		if k, size := binary.Uvarint(params); size > 0 && k == uint64(len(params)-size) {
			if frame, err = rowgroup.ParseParams(params[size:]); err == nil && frame.Length == int64(len(stored)) {
				frame.Gap = 0
				if err := compare(frame, stored[:len(stored):len(stored)], n); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
