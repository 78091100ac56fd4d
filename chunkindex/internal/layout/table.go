package layout

// Table is the sample table of one chunk: offsets relative to the chunk's decoded bytes, lengths
// and checksums. Samples of one length at one distance, such as records, take 4 bytes each.
type Table struct {
	offsets, lengths        []uint32 // nil: they follow from the numbers below
	first, distance, length uint32
	crcs                    []uint32
}

// newTable returns a table of n samples with an offset and a length for each.
func newTable(n int) *Table {
	all := make([]uint32, 3*n)
	return &Table{offsets: all[:n:n], lengths: all[n : 2*n : 2*n], crcs: all[2*n:]}
}

// Len returns the number of samples.
func (t *Table) Len() int { return len(t.crcs) }

// Offset returns the offset of sample i.
func (t *Table) Offset(i int) uint32 {
	if t.offsets == nil {
		return t.first + uint32(i)*t.distance
	}
	return t.offsets[i]
}

// Length returns the length of sample i.
func (t *Table) Length(i int) uint32 {
	if t.lengths == nil {
		return t.length
	}
	return t.lengths[i]
}

// CRC32C returns the checksum of sample i.
func (t *Table) CRC32C(i int) uint32 { return t.crcs[i] }

// Bytes returns the memory size of the table.
func (t *Table) Bytes() int64 { return int64(4*(cap(t.offsets)+cap(t.lengths)+cap(t.crcs))) + 128 }
