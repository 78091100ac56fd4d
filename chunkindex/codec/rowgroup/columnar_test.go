package rowgroup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// writer writes a row group of random columns without lists. The pages of its columns end at
// different rows.
type writer struct {
	r      *rand.Rand
	rows   int
	nodes  []byte // nodes of Params
	fields int
	places []byte // column chunks of Params
	pages  []byte
}

// entries are the values of a column.
type entries struct {
	levels []byte // definition level of each row
	most   byte
	values [][]byte // values that are present
	size   int      // size of each value; 0: variable
	kind   byte     // physical type
}

func newWriter(seed uint64) *writer {
	r := rand.New(rand.NewPCG(seed, 37))
	w := &writer{r: r, rows: 1 + r.IntN(3000)}
	for range 1 + r.IntN(5) {
		w.fields++
		w.node(make([]byte, w.rows), 0, 0)
	}
	return w
}

// node writes a leaf or a struct. present contains the level of each row; it is most if the parent
// is present.
func (w *writer) node(present []byte, most byte, depth int) {
	levels, mayBeNull := bytes.Clone(present), w.r.IntN(3) > 0
	if mayBeNull {
		share, run := []float64{0, 0.05, 0.5, 1}[w.r.IntN(4)], 1+w.r.IntN(2)*w.r.IntN(300)
		null := false
		for i, l := range levels {
			if i%run == 0 {
				null = w.r.Float64() < share
			}
			if l == most && !null {
				levels[i]++
			}
		}
		most++
	}
	head := byte(0)
	if mayBeNull {
		head = nullable
	}
	if depth < 3 && w.r.IntN(4) == 0 {
		n := 1 + w.r.IntN(3)
		w.nodes = append(w.nodes, head|1, byte(n))
		for range n {
			w.node(levels, most, depth+1)
		}
		return
	}
	e := &entries{levels: levels, most: most, kind: byte(w.r.IntN(8))}
	e.size = []int{1, 4, 8, 12, 4, 8, 0, 1 + w.r.IntN(60)}[e.kind]
	w.nodes = append(w.nodes, head|e.kind<<4)
	if e.kind == 7 {
		w.nodes = append(w.nodes, byte(e.size))
	}
	for _, l := range levels {
		if l == most {
			e.values = append(e.values, w.value(e))
		}
	}
	w.column(e)
}

func (w *writer) value(e *entries) []byte {
	v := make([]byte, e.size)
	if e.size == 0 {
		v = make([]byte, w.r.IntN(20))
	}
	for i := range v {
		v[i] = byte(w.r.IntN(256))
	}
	if e.kind == 0 {
		v[0] &= 1
	}
	return v
}

// column writes the pages of a column.
func (w *writer) column(e *entries) {
	codec, start := w.r.IntN(2)*snappyPack, len(w.pages)
	pack := func(isDictionary bool, n int, encoding int64, body []byte) {
		raw := int64(len(body))
		if codec == snappyPack {
			body = snappy.Encode(nil, body)
		}
		w.pages = append(w.pages, page(isDictionary, raw, int64(n), encoding, body)...)
	}
	longest := 1 + w.r.IntN(1500)
	var dict [][]byte
	if e.kind != 0 && w.r.IntN(2) == 0 {
		for range 1 + w.r.IntN(300) {
			dict = append(dict, w.value(e))
		}
		pack(true, len(dict), plain, e.plain(dict))
	}
	values, levels := e.values, e.levels
	for len(levels) > 0 {
		n := min(len(levels), w.r.IntN(longest+1))
		k := bytes.Count(levels[:n], []byte{e.most})
		body := []byte(nil)
		if e.most > 0 {
			body = levelled(w.hybrid(asNumbers(levels[:n]), bitsOf(int(e.most))))
		}
		encoding, b := w.encode(e, dict, values[:k])
		pack(false, n, encoding, append(body, b...))
		values, levels = values[k:], levels[n:]
	}
	for _, v := range []int{codec, start, len(w.pages) - start, w.rows} {
		w.places = binary.AppendUvarint(w.places, uint64(v))
	}
}

// encode encodes the values of a page. If there is a dictionary, it may write other values.
func (w *writer) encode(e *entries, dict, values [][]byte) (int64, []byte) {
	switch {
	case dict != nil && w.r.IntN(4) > 0:
		numbers := make([]uint32, len(values))
		for i := range numbers {
			numbers[i] = uint32(w.r.IntN(len(dict)))
		}
		width := bitsOf(len(dict) - 1)
		return dictionary, append([]byte{byte(width)}, w.hybrid(numbers, width)...)
	case e.kind == 0 && w.r.IntN(2) == 0:
		return 3, levelled(w.hybrid(asNumbers(bytes.Join(values, nil)), 1))
	case e.size > 1 && w.r.IntN(3) == 0:
		all := bytes.Join(values, nil)
		split := make([]byte, len(all))
		for i, b := range all {
			split[i%e.size*len(values)+i/e.size] = b
		}
		return 9, split
	case e.kind == 6 && w.r.IntN(3) == 0:
		lengths := make([]int, len(values))
		for i, v := range values {
			lengths[i] = len(v)
		}
		return 6, append(deltaPacked(lengths), bytes.Join(values, nil)...)
	case e.kind == 6 && w.r.IntN(3) == 0:
		prefixes, lengths, suffixes := make([]int, len(values)), make([]int, len(values)), []byte(nil)
		for i, v := range values {
			if i > 0 {
				prefixes[i] = w.r.IntN(1 + min(len(v), len(values[i-1])))
				copy(v, values[i-1][:prefixes[i]])
			}
			lengths[i] = len(v) - prefixes[i]
			suffixes = append(suffixes, v[prefixes[i]:]...)
		}
		return deltaBytes, append(append(deltaPacked(prefixes), deltaPacked(lengths)...), suffixes...)
	case e.kind == 2 && w.r.IntN(3) == 0:
		numbers := make([]int, len(values))
		for i, v := range values {
			numbers[i] = int(binary.LittleEndian.Uint64(v))
		}
		return 5, deltaPacked(numbers)
	}
	return plain, e.plain(values)
}

func (e *entries) plain(values [][]byte) (b []byte) {
	if e.kind == 0 {
		b = make([]byte, (len(values)+7)/8)
		for i, v := range values {
			b[i/8] |= v[0] << (i % 8)
		}
		return b
	}
	for _, v := range values {
		if e.size == 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		}
		b = append(b, v...)
	}
	return b
}

// hybrid encodes numbers in random runs of repeated and of packed numbers.
func (w *writer) hybrid(numbers []uint32, width int) (b []byte) {
	for len(numbers) > 0 {
		n := 1
		for n < len(numbers) && numbers[n] == numbers[0] {
			n++
		}
		if n > 3 && w.r.IntN(3) > 0 {
			b = append(binary.AppendUvarint(b, uint64(n)<<1), make([]byte, (width+7)/8)...)
			for i := range (width + 7) / 8 {
				b[len(b)-(width+7)/8+i] = byte(numbers[0] >> (8 * i))
			}
			numbers = numbers[n:]
			continue
		}
		groups := 1 + w.r.IntN(1+min(90, len(numbers)/8))
		b = binary.AppendUvarint(b, uint64(groups)<<1|1)
		packed := make([]byte, groups*width)
		n = min(8*groups, len(numbers))
		for i, v := range numbers[:n] {
			for j := range width {
				packed[(i*width+j)/8] |= byte(v>>j&1) << ((i*width + j) % 8)
			}
		}
		b, numbers = append(b, packed...), numbers[n:]
	}
	return b
}

// deltaPacked encodes integers as DELTA_BINARY_PACKED with blocks of 128 deltas of 64 bits.
func deltaPacked(numbers []int) []byte {
	b := binary.AppendUvarint([]byte{0x80, 1, 1}, uint64(len(numbers)))
	if len(numbers) == 0 {
		return append(b, 0)
	}
	b = binary.AppendVarint(b, int64(numbers[0]))
	for i := 1; i < len(numbers); i += 128 {
		b = append(b, 0, 64) // the smallest delta and the bit width
		for j := i; j < i+128; j++ {
			delta := 0
			if j < len(numbers) {
				delta = numbers[j] - numbers[j-1]
			}
			b = binary.LittleEndian.AppendUint64(b, uint64(delta))
		}
	}
	return b
}

func asNumbers(b []byte) []uint32 {
	numbers := make([]uint32, len(b))
	for i, v := range b {
		numbers[i] = uint32(v)
	}
	return numbers
}

func bitsOf(most int) (n int) {
	for ; most > 0; most >>= 1 {
		n++
	}
	return n
}

func (w *writer) params() []byte {
	b := []byte{1, 0}
	for _, v := range []int{len(w.pages), w.rows, w.fields} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return append(append(b, w.nodes...), w.places...)
}

// byRows decodes a row group row by row.
func byRows(f *rowgroup.Frame, pages []byte, limit int) (b []byte, err error) {
	d, err := rowgroup.NewDecoder(f, pages, rowgroup.Room(int64(limit)))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for err == nil {
		b, err = d.Next(b, int64(limit))
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// compare returns an error if Decode and a Decoder differ on damaged pages whose rows should have n bytes.
func compare(f *rowgroup.Frame, pages []byte, n int) error {
	want, wantErr := byRows(f, pages, n)
	if wantErr == nil && len(want) < n {
		wantErr = io.ErrUnexpectedEOF
	}
	params, got := f.Params(), make([]byte, n)
	err := rowgroup.Decode(append(binary.AppendUvarint(nil, uint64(len(params))), params...), pages, got, nil)
	if failed(err) || (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		return fmt.Errorf("got %v, want %v and the same rows", err, wantErr)
	}
	return nil
}

// TestDecode_EqualsDecoder checks that Decode, which decodes many rows at a time where it can,
// returns the same rows and errors as a Decoder, which decodes them one by one.
func TestDecode_EqualsDecoder(t *testing.T) {
	for seed := range uint64(60) {
		w := newWriter(seed)
		params := w.params()
		f, err := rowgroup.ParseParams(params)
		if err != nil {
			t.Fatal(seed, err)
		}
		want, err := byRows(f, w.pages, rows.MaxRow)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		params = append(binary.AppendUvarint(nil, uint64(len(params))), params...)
		for _, n := range []int{len(want), len(want) - 1, w.r.IntN(len(want)), w.r.IntN(len(want))} {
			_, wantErr := byRows(f, w.pages, n)
			got := bytes.Repeat([]byte{0xa5}, n)
			err := rowgroup.Decode(params, w.pages, got, nil)
			if n == len(want) && (err != nil || !bytes.Equal(got, want)) {
				t.Fatalf("seed %d: got other rows, %v", seed, err)
			}
			if n < len(want) && (wantErr == nil || !errors.Is(err, wantErr)) {
				t.Fatalf("seed %d, %d bytes of %d: got %v, want %v", seed, n, len(want), err, wantErr)
			}
		}
		for range 30 {
			pages := bytes.Clone(w.pages)
			pages[w.r.IntN(len(pages))] ^= 1 << w.r.IntN(8)
			if err := compare(f, pages, len(want)); err != nil {
				t.Fatalf("seed %d, with a wrong bit: %v", seed, err)
			}
		}
	}
}

// TestDecode_LimitsPrefixes checks that a page of values that repeat a long prefix takes no more
// memory than the rows that were asked for.
func TestDecode_LimitsPrefixes(t *testing.T) {
	const n, long = 1000, 1 << 20
	prefixes, lengths := slices.Repeat([]int{long}, n), make([]int, n)
	prefixes[0], lengths[0] = 0, long
	body := append(append(deltaPacked(prefixes), deltaPacked(lengths)...), make([]byte, long)...)
	h := handmade{n, []byte{bytesLeaf}, 0, n, page(false, -1, n, deltaBytes, body)}
	p := h.frame(t).Params()
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	err := rowgroup.Decode(append(binary.AppendUvarint(nil, uint64(len(p))), p...), h.pages, make([]byte, 3*long), nil)
	runtime.ReadMemStats(&is)
	if took := is.TotalAlloc - was.TotalAlloc; !errors.Is(err, rows.ErrLimit) || took > 10*long {
		t.Errorf("got %v and %d bytes of memory, want %v and few", err, took, rows.ErrLimit)
	}
}
