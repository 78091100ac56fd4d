package rowgroup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// BenchmarkDecode decodes row groups in Decode, and row by row in a Decoder, which does not
// decode column by column.
func BenchmarkDecode(b *testing.B) {
	const n = 1 << 18
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name    string
		columns []column
	}{
		{"five numbers", []column{{size: 8}, {size: 8}, {size: 8}, {size: 4}, {size: 4}}},
		{"five numbers, 5 % nulls", []column{{size: 8, nulls: 5}, {size: 8, nulls: 5}, {size: 8, nulls: 5}, {size: 4, nulls: 5}, {size: 4, nulls: 5}}},
		{"two dictionaries", []column{{size: 8, distinct: 1000}, {size: 8, distinct: 1000}}},
		{"two dictionaries of text", []column{{distinct: 1000}, {distinct: 1000}}},
		{"number and text", []column{{size: 8}, {}}},
	} {
		w := &writer{r: r, rows: n, fields: len(c.columns)}
		for _, col := range c.columns {
			col.write(w)
		}
		params := w.params()
		f, err := rowgroup.ParseParams(params)
		if err != nil {
			b.Fatal(err)
		}
		all, err := byRows(f, w.pages, rows.MaxRow)
		if err != nil {
			b.Fatal(err)
		}
		params = append(binary.AppendUvarint(nil, uint64(len(params))), params...)
		stored := append(make([]byte, 0, int64(len(w.pages))+rowgroup.Room(int64(len(all)))), w.pages...)
		b.Run(c.name+"/columns", func(b *testing.B) {
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				if err := rowgroup.Decode(params, stored, all, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/rows", func(b *testing.B) {
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				d, err := rowgroup.NewDecoder(f, stored, rowgroup.Room(int64(len(all))))
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = d.Next(all[:0], rows.MaxRow)
				}
				d.Close()
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
		})
	}
}

// column describes a column of random values.
type column struct {
	size     int // 4, 8, or 0: words
	nulls    int // percentage
	distinct int // number of the dictionary's values; 0: no dictionary
}

// write writes the column in pages of 2^15 rows, compressed with snappy.
func (c column) write(w *writer) {
	e := &entries{size: c.size, kind: map[int]byte{4: 4, 8: 5, 0: 6}[c.size], most: 1}
	w.nodes = append(w.nodes, nullable|e.kind<<4)
	start := len(w.pages)
	pack := func(isDictionary bool, n int, encoding int64, body []byte) {
		w.pages = append(w.pages, page(isDictionary, int64(len(body)), int64(n), encoding, snappy.Encode(nil, body))...)
	}
	if c.distinct > 0 {
		pack(true, c.distinct, plain, e.plain(c.values(w, e, c.distinct)))
	}
	for range w.rows >> 15 {
		levels := bytes.Repeat([]byte{1}, 1<<15)
		for i := range levels {
			if w.r.IntN(100) < c.nulls {
				levels[i] = 0
			}
		}
		n := bytes.Count(levels, []byte{1})
		body := levelled(w.hybrid(asNumbers(levels), 1))
		if c.distinct == 0 {
			pack(false, len(levels), plain, append(body, e.plain(c.values(w, e, n))...))
			continue
		}
		numbers := make([]uint32, n)
		for i := range numbers {
			numbers[i] = uint32(w.r.IntN(c.distinct))
		}
		body = append(body, byte(bitsOf(c.distinct-1)))
		pack(false, len(levels), dictionary, append(body, w.hybrid(numbers, bitsOf(c.distinct-1))...))
	}
	for _, v := range []int{snappyPack, start, len(w.pages) - start, w.rows} {
		w.places = binary.AppendUvarint(w.places, uint64(v))
	}
}

func (c column) values(w *writer, e *entries, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		if all[i] = w.value(e); c.size == 0 {
			all[i] = fmt.Append(nil, "word", w.r.IntN(1000))
		}
	}
	return all
}
