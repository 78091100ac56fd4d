package body

import (
	"context"
	"encoding/binary"
	"slices"
)

// Constants of the framed form (docs/spec/framed.md).
const (
	framedMagic   = "MLRF"
	framedVersion = 1
	framedHeader  = 40
	framedAlign   = 8

	framedKeys  = 1 // flag: the table has keys
	framedParts = 2 // flag: the table has parts
)

// layOutFramed lays out a table of lengths, optionally with keys and parts, followed by the
// samples.
func layOutFramed(ctx context.Context, b *Body, a Answer) error {
	v := a.View
	shown, err := b.readTexts(ctx, a)
	if err != nil {
		return err
	}
	stored := shown.parts
	t := framedTable{lengths: b.lengths, hasKeys: v.Keys, hasParts: v.Parts, keys: shown.keys, parts: stored}
	if v.Fields != nil {
		t.lengths, t.parts = joined(stored)
	} else {
		t.lengths = withAdded(b.lengths, stored)
	}
	if err := b.checkText(t.most()); err != nil {
		return err
	}
	b.put(t.encode()...)
	b.table = len(b.text)
	if v.Fields == nil {
		b.wholeWithAdded(stored)
		return nil
	}
	for i, all := range stored {
		for _, p := range all {
			b.stretchPart(i, p)
		}
	}
	return nil
}

// withAdded returns the lengths of samples including added parts.
func withAdded(lengths []uint32, parts [][]part) []uint32 {
	lengths = slices.Clone(lengths)
	for i, all := range parts {
		for _, p := range all {
			if p.added {
				lengths[i] += p.Length
			}
		}
	}
	return lengths
}

// wholeWithAdded appends all samples to the body, each followed by its added parts.
func (b *Body) wholeWithAdded(parts [][]part) {
	if parts == nil {
		b.whole()
		return
	}
	for i := range b.samples {
		s := &b.samples[i]
		b.stretch(i, 0, s.length, s.crc)
		for _, p := range parts[i] {
			if p.added {
				b.stretchPart(i, p)
			}
		}
	}
}

// joined returns the parts with their offsets after a sample's parts are concatenated, and the
// resulting lengths of samples.
func joined(stored [][]part) (lengths []uint32, parts [][]part) {
	lengths, parts = make([]uint32, len(stored)), make([][]part, len(stored))
	for i, all := range stored {
		parts[i] = make([]part, len(all))
		for j, p := range all {
			p.Offset = lengths[i]
			parts[i][j] = p
			lengths[i] += p.Length
		}
	}
	return lengths, parts
}

// framedTable is the table before the samples.
type framedTable struct {
	lengths           []uint32
	hasKeys, hasParts bool
	keys              []string
	parts             [][]part
}

// most returns an upper bound of the size of the table.
func (t *framedTable) most() int64 {
	n := int64(framedHeader+framedAlign) + 12*int64(len(t.lengths))
	for _, key := range t.keys {
		n += int64(len(key))
	}
	if t.hasParts {
		for _, all := range t.parts {
			for _, p := range all {
				n += 16 + int64(len(p.Ext))
			}
		}
	}
	return n
}

// encode returns the table: the numbers, one kind after another, then the texts.
func (t *framedTable) encode() []byte {
	b := make([]byte, framedHeader, t.most())
	flags := uint16(0)
	data := uint64(0)
	for _, n := range t.lengths {
		b = binary.LittleEndian.AppendUint32(b, n)
		data += uint64(n)
	}
	var text []byte
	if t.hasKeys {
		flags |= framedKeys
		for _, key := range t.keys {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
			text = append(text, key...)
		}
	}
	keyBytes, names, count := len(text), []string(nil), 0
	if t.hasParts {
		flags |= framedParts
		b, names, count = t.appendParts(b)
		for _, name := range names {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
			text = append(text, name...)
		}
	}
	b = append(b, text...)
	b = append(b, make([]byte, -len(b)&(framedAlign-1))...)
	copy(b, framedMagic)
	binary.LittleEndian.PutUint16(b[4:], framedVersion)
	binary.LittleEndian.PutUint16(b[6:], flags)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(t.lengths)))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(names)))
	binary.LittleEndian.PutUint32(b[16:], uint32(count))
	binary.LittleEndian.PutUint32(b[20:], uint32(keyBytes))
	binary.LittleEndian.PutUint32(b[24:], uint32(len(text)-keyBytes))
	binary.LittleEndian.PutUint32(b[28:], uint32(len(b)))
	binary.LittleEndian.PutUint64(b[32:], data)
	return b
}

// appendParts appends the number of parts of each sample, then the name numbers, offsets and
// lengths of all parts. It returns the distinct names in order of appearance, and the number of
// parts.
func (t *framedTable) appendParts(b []byte) (_ []byte, names []string, count int) {
	number := map[string]uint32{}
	for _, all := range t.parts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(all)))
		count += len(all)
		for _, p := range all {
			if _, known := number[p.Ext]; !known {
				number[p.Ext] = uint32(len(names))
				names = append(names, p.Ext)
			}
		}
	}
	each := func(of func(p part) uint32) {
		for _, all := range t.parts {
			for _, p := range all {
				b = binary.LittleEndian.AppendUint32(b, of(p))
			}
		}
	}
	each(func(p part) uint32 { return number[p.Ext] })
	each(func(p part) uint32 { return p.Offset })
	each(func(p part) uint32 { return p.Length })
	return b, names, count
}
