package datapath

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
)

// sized is a table of the given number of bytes.
type sized int64

func (n sized) Bytes() int64 { return int64(n) }

// Rows of 500 bytes in five columns have tables a fifth as large as the rows. The tables of all
// chunks stay in memory together with the chunks. Otherwise each batch, which has samples of all
// chunks, would decode all tables again.
func TestTablesOfSmallRowsStay(t *testing.T) {
	const chunk, chunks = 4 << 20, 16
	total := int64(BudgetFor(chunk * chunks))
	tables := newPath(t, Config{Budget: bud(total)}).Tables()
	for pass := range 2 {
		for c := range chunks {
			key := chunkindex.CacheKey{Chunk: c}
			if _, kept := tables.Get(key); kept != (pass == 1) {
				t.Errorf("pass %d, chunk %d: its table is in memory: %t, want %t", pass, c, kept, pass == 1)
			}
			tables.Add(key, sized(chunk/5))
		}
	}
}
