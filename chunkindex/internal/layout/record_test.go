package layout

import (
	"encoding/binary"
	"errors"
	"testing"
)

func TestDecodeTable_RejectsMisplacedSamples(t *testing.T) {
	table := func(rows ...[2]uint32) []byte {
		var b []byte
		for _, row := range rows {
			b = binary.LittleEndian.AppendUint32(b, row[0])
			b = binary.LittleEndian.AppendUint32(b, row[1])
			b = binary.LittleEndian.AppendUint32(b, 0)
		}
		return b
	}
	const chunk, longest = 1000, 600
	for _, test := range []struct {
		name string
		rows [][2]uint32
		ok   bool
	}{
		{"side by side", [][2]uint32{{0, 400}, {400, 600}}, true},
		{"with a gap", [][2]uint32{{0, 400}, {500, 500}}, true},
		{"overlapping by one byte", [][2]uint32{{0, 400}, {399, 600}}, false},
		{"twice the same", [][2]uint32{{0, 400}, {0, 400}}, false},
		{"descending", [][2]uint32{{500, 100}, {0, 100}}, false},
		{"of no length", [][2]uint32{{0, 0}}, false},
		{"longer than the longest", [][2]uint32{{0, 601}}, false},
		{"past the chunk's end", [][2]uint32{{401, 600}}, false},
		{"wrapping 32 bits", [][2]uint32{{0xffffffff, 600}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := decodePlainTable(table(test.rows...), chunk, longest, 0)
			if test.ok && (err != nil || got.Len() != len(test.rows)) {
				t.Errorf("got %v, %v, want the table", got, err)
			}
			if !test.ok && !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v, want %v", err, ErrMalformed)
			}
		})
	}
}
