package client

import (
	"encoding/binary"
	"fmt"
)

// framedForm is the batch form with a table of samples, keys and parts (docs/spec/framed.md).
const framedForm = "framed"

const (
	framedHead = 40 // size of the fixed header in bytes
	hasKeys    = 1  // flags of the optional tables
	hasParts   = 2
)

// frame is the parsed table of a framed batch, with the samples.
type frame struct {
	samples []byte
	starts  []int64  // offset of each sample, and the end of the last one
	keys    []string // keys of the samples; nil: not in the table
	parts   [][]part // parts of each sample; nil: not in the table
}

// part is the range of a part in its sample.
type part struct {
	name       string
	at, length uint32
}

// rows reads consecutive numbers of a table. After the end of the table it returns nil and sets
// short.
type rows struct {
	left  []byte
	short bool
}

func (r *rows) take(n uint64) []byte {
	if n > uint64(len(r.left)) {
		r.short, r.left = true, nil
		return nil
	}
	out := r.left[:n:n]
	r.left = r.left[n:]
	return out
}

func (r *rows) numbers(n uint32) []uint32 {
	raw := r.take(4 * uint64(n))
	out := make([]uint32, len(raw)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return out
}

// texts reads strings of the given lengths, which sum up to total bytes.
func (r *rows) texts(lengths []uint32, total uint32) []string {
	raw := rows{left: r.take(uint64(total))}
	out := make([]string, len(lengths))
	for i, n := range lengths {
		out[i] = string(raw.take(uint64(n)))
	}
	r.short = r.short || raw.short || len(raw.left) > 0
	return out
}

// readFrame parses the batch's data in the framed form.
func (b *Batch) readFrame() (err error) {
	if len(b.data) < framedHead || uint64(binary.LittleEndian.Uint32(b.data[28:])) > uint64(len(b.data)) {
		return fmt.Errorf("response has no valid sample table (framed format): %w", ErrProtocol)
	}
	at := binary.LittleEndian.Uint32(b.data[28:])
	b.frame, err = readFrame(b.data[:at], b.data[at:], b.count)
	return err
}

// readFrame parses a table. It rejects samples and parts that exceed the bounds of samples.
func readFrame(table, samples []byte, count int) (*frame, error) {
	wrong := func(what string) (*frame, error) {
		return nil, fmt.Errorf("response in the framed format: %s: %w", what, ErrProtocol)
	}
	if len(table) < framedHead || string(table[:4]) != "MLRF" || binary.LittleEndian.Uint16(table[4:]) != 1 {
		return wrong("it does not begin with a sample table of version 1")
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(table[at:]) }
	flags, n := binary.LittleEndian.Uint16(table[6:]), number(8)
	if uint64(number(28)) != uint64(len(table)) || binary.LittleEndian.Uint64(table[32:]) != uint64(len(samples)) {
		return wrong(fmt.Sprintf("its sample table of %d bytes and its samples of %d bytes do not match the header", len(table), len(samples)))
	}
	if uint64(n) != uint64(count) {
		return wrong(fmt.Sprintf("it has %d samples instead of %d", n, count))
	}
	r := &rows{left: table[framedHead:]}
	lengths := r.numbers(n)
	f := &frame{samples: samples, starts: make([]int64, 1, len(lengths)+1)}
	for i, length := range lengths {
		f.starts = append(f.starts, f.starts[i]+int64(length))
	}
	if f.starts[len(lengths)] != int64(len(samples)) {
		return wrong("the lengths of its samples do not sum to its length")
	}
	var keyLengths, counts, which, offsets, sizes, nameLengths []uint32
	if flags&hasKeys != 0 {
		keyLengths = r.numbers(n)
	}
	if flags&hasParts != 0 {
		counts, which, offsets, sizes, nameLengths = r.numbers(n), r.numbers(number(16)), r.numbers(number(16)), r.numbers(number(16)), r.numbers(number(12))
	}
	if flags&hasKeys != 0 {
		f.keys = r.texts(keyLengths, number(20))
	}
	names := r.texts(nameLengths, number(24))
	if r.short || len(r.left) >= 8 {
		return wrong("the length of the sample table does not match its header")
	}
	if flags&hasParts == 0 {
		return f, nil
	}
	f.parts = make([][]part, len(counts))
	for i, count := range counts {
		if uint64(count) > uint64(len(which)) {
			return wrong("a sample has more parts than the sample table lists")
		}
		for j := range count {
			p := part{at: offsets[j], length: sizes[j]}
			if uint64(which[j]) >= uint64(len(names)) || uint64(p.at)+uint64(p.length) > uint64(lengths[i]) {
				return wrong("a part is outside its sample, or has no name")
			}
			p.name = names[which[j]]
			f.parts[i] = append(f.parts[i], p)
		}
		which, offsets, sizes = which[count:], offsets[count:], sizes[count:]
	}
	if len(which) > 0 {
		return wrong("the sample table lists parts that belong to no sample")
	}
	return f, nil
}

// sample returns the bytes of sample i.
func (f *frame) sample(i int) []byte { return f.samples[f.starts[i]:f.starts[i+1]:f.starts[i+1]] }
