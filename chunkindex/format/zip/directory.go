package zip

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/codec/zipmember"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// Magic numbers and minimum lengths of the structures at the end of an archive, as defined in
// PKWARE's APPNOTE 6.3.
const (
	entryMagic   = "PK\x01\x02"
	entryLength  = 46
	endMagic     = "PK\x05\x06"
	endLength    = 22
	wideMagic    = "PK\x06\x06" // end-of-archive record of a Zip64 archive
	wideLength   = 56
	placeMagic   = "PK\x06\x07" // locator of the Zip64 end record
	placeLength  = 20
	maxComment   = math.MaxUint16
	maxDirectory = 256 << 20 // maximum bytes of memory for a directory
)

// kind is the role of a member in a dataset.
type kind int

const (
	dataMember kind = iota
	hiddenMember
	directoryMember
)

// member is the directory entry of a member.
type member struct {
	name            string
	key, ext        string
	kind            kind
	flags, method   uint16
	crc             uint32
	stored, decoded int64
	head            int64 // offset of the member's header
	next            int64 // offset of the next member's header, or of the directory after the last member
}

func (m *member) fail(reason string, args ...any) error {
	return &format.Error{Offset: m.head, Name: m.name, Reason: fmt.Sprintf(reason, args...)}
}

// archive is the parsed directory of an archive.
type archive struct {
	members []member // in stored order
	hidden  int64    // number of hidden members, which are skipped
}

// plain reports whether all data members are stored without compression.
func (a *archive) plain() bool {
	return !slices.ContainsFunc(a.members, func(m member) bool { return m.kind == dataMember && m.method != zipmember.Stored })
}

// ending holds the description of the directory that the end of an archive contains.
type ending struct {
	entries, size, offset uint64
	at                    int64 // end of the directory
}

// readArchive reads an archive's directory.
func readArchive(ctx context.Context, in format.Ranges, size int64, hides bool) (*archive, error) {
	tail := make([]byte, min(size, endLength+maxComment+placeLength+wideLength))
	if err := in.ReadRange(ctx, size-int64(len(tail)), tail); err != nil {
		return nil, err
	}
	e, err := readEnding(tail, size)
	if err != nil {
		return nil, err
	}
	if e.size > maxDirectory || e.entries > e.size/entryLength {
		return nil, fmt.Errorf("its directory of %d members has %d bytes: more than the limit of %d, or too few for the members", e.entries, e.size, maxDirectory)
	}
	if e.offset > uint64(e.at) || int64(e.offset+e.size) != e.at {
		return nil, errors.New("its directory is not at its recorded offset: the archive is truncated or preceded by other bytes; repair it with zip -FF")
	}
	directory := make([]byte, e.size)
	if begin := size - int64(len(tail)); int64(e.offset) >= begin {
		copy(directory, tail[int64(e.offset)-begin:])
	} else if err := in.ReadRange(ctx, int64(e.offset), directory); err != nil {
		return nil, err
	}
	a := &archive{}
	for range e.entries {
		m, length, err := readEntry(directory, hides)
		if err != nil {
			return nil, err
		}
		directory = directory[length:]
		if m.kind == hiddenMember {
			a.hidden++
		}
		a.members = append(a.members, m)
	}
	if len(directory) > 0 {
		return nil, errors.New("its directory has more members than its end record")
	}
	return a, a.order(int64(e.offset))
}

// name sets the keys and extensions of the data members. It follows WebDataset's rule, or derives a
// separate key for each member if each is set.
func (a *archive) name(each bool) error {
	first := map[string]int{}
	for i := range a.members {
		m := &a.members[i]
		if m.kind != dataMember {
			continue
		}
		if !each {
			m.key, m.ext = naming.Member(m.name)
			continue
		}
		m.key, m.ext = naming.File(m.name)
		if j, twice := first[m.key]; twice { // both names differ only by extension
			m.key, a.members[j].key = naming.WholeFile(m.name), naming.WholeFile(a.members[j].name)
		} else {
			first[m.key] = i
		}
	}
	return a.fits()
}

// fits returns an error if the total length of the members with one key exceeds the limit for a
// sample.
func (a *archive) fits() error {
	var first *member
	together := int64(0)
	for i := range a.members {
		m := &a.members[i]
		if m.kind != dataMember {
			continue
		}
		if first == nil || m.key != first.key {
			first, together = m, 0
		}
		if together += m.decoded; together > format.MaxSample {
			return m.fail("together with %q and the other members of the same key, it exceeds the maximum sample length of %d bytes: use --sample-key path to make each member a sample", first.name, format.MaxSample)
		}
	}
	return nil
}

// order sorts the members by offset and rejects members that overlap.
func (a *archive) order(directory int64) error {
	slices.SortFunc(a.members, func(a, b member) int { return cmp.Compare(a.head, b.head) })
	for i := range a.members {
		m := &a.members[i]
		m.next = directory
		if i+1 < len(a.members) {
			m.next = a.members[i+1].head
		}
		if m.stored > m.next-m.head-zipmember.HeaderSize-int64(len(m.name)) {
			return m.fail("it extends into the next member or the directory")
		}
	}
	return nil
}

// readEnding parses the end of an archive of this size. tail contains the archive's last bytes.
func readEnding(tail []byte, size int64) (e ending, err error) {
	begin := size - int64(len(tail))
	at := len(tail) - endLength
	for ; at >= 0; at-- {
		if string(tail[at:at+4]) == endMagic && at+endLength+int(binary.LittleEndian.Uint16(tail[at+20:])) == len(tail) {
			break
		}
	}
	if at < 0 {
		return e, errors.New("it does not end like a zip archive: it is truncated, or another type of file")
	}
	b := tail[at:]
	disk, of := uint64(binary.LittleEndian.Uint16(b[4:])), uint64(binary.LittleEndian.Uint16(b[6:]))
	here, all := uint64(binary.LittleEndian.Uint16(b[8:])), uint64(binary.LittleEndian.Uint16(b[10:]))
	e = ending{all, uint64(binary.LittleEndian.Uint32(b[12:])), uint64(binary.LittleEndian.Uint32(b[16:])), begin + int64(at)}
	if at >= placeLength && string(tail[at-placeLength:at-placeLength+4]) == placeMagic {
		place := tail[at-placeLength : at]
		from := int64(binary.LittleEndian.Uint64(place[8:]))
		if from != begin+int64(at)-placeLength-wideLength || from < begin {
			return e, errors.New("its Zip64 end record is not at its recorded offset: other bytes precede the archive, or the record has an extensible data sector, which is not supported")
		}
		w := tail[from-begin:]
		if string(w[:4]) != wideMagic || binary.LittleEndian.Uint64(w[4:]) != wideLength-12 {
			return e, errors.New("its Zip64 end is malformed")
		}
		wide := []struct {
			narrow *uint64
			most   uint64
			wide   uint64
		}{
			{&disk, math.MaxUint16, uint64(binary.LittleEndian.Uint32(w[16:]))},
			{&of, math.MaxUint16, uint64(binary.LittleEndian.Uint32(w[20:]))},
			{&here, math.MaxUint16, binary.LittleEndian.Uint64(w[24:])},
			{&e.entries, math.MaxUint16, binary.LittleEndian.Uint64(w[32:])},
			{&e.size, math.MaxUint32, binary.LittleEndian.Uint64(w[40:])},
			{&e.offset, math.MaxUint32, binary.LittleEndian.Uint64(w[48:])},
		}
		for _, n := range wide {
			if *n.narrow != n.most && *n.narrow != n.wide {
				return e, errors.New("its end records with and without Zip64 do not agree")
			}
			*n.narrow = n.wide
		}
		e.at = from
	}
	if disk != 0 || of != 0 || here != e.entries {
		return e, errors.New("it is one part of a split archive: join the parts with zip -s 0")
	}
	return e, nil
}

// readEntry parses one entry of a directory.
func readEntry(b []byte, hides bool) (m member, length int, err error) {
	if len(b) < entryLength || string(b[:4]) != entryMagic {
		return m, 0, errors.New("its directory is malformed")
	}
	name, extra := int(binary.LittleEndian.Uint16(b[28:])), int(binary.LittleEndian.Uint16(b[30:]))
	length = entryLength + name + extra + int(binary.LittleEndian.Uint16(b[32:]))
	if length > len(b) {
		return m, 0, errors.New("its directory is malformed")
	}
	m = member{
		name: string(b[entryLength : entryLength+name]), flags: binary.LittleEndian.Uint16(b[8:]), method: binary.LittleEndian.Uint16(b[10:]),
		crc: binary.LittleEndian.Uint32(b[16:]), stored: int64(binary.LittleEndian.Uint32(b[20:])), decoded: int64(binary.LittleEndian.Uint32(b[24:])),
		head: int64(binary.LittleEndian.Uint32(b[42:])),
	}
	if err := m.widen(b[entryLength+name : entryLength+name+extra]); err != nil {
		return m, 0, err
	}
	switch {
	case hides && format.Hidden(m.name):
		m.kind = hiddenMember
		return m, length, nil
	case strings.HasSuffix(m.name, "/"):
		m.kind = directoryMember
	}
	if binary.LittleEndian.Uint16(b[34:]) != 0 {
		return m, 0, m.fail("it is in another part of a multi-part archive")
	}
	const unix, kinds, link = 3, 0xf000, 0xa000
	if b[5] == unix && binary.LittleEndian.Uint16(b[40:])&kinds == link {
		return m, 0, m.fail("it is a link: recreate the archive without --symlinks")
	}
	return m, length, m.check()
}

// widen replaces 32-bit placeholders by the values of a Zip64 field.
func (m *member) widen(extra []byte) error {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if 4+n > len(extra) {
			break
		}
		field := extra[4 : 4+n]
		extra = extra[4+n:]
		if id != 1 {
			continue
		}
		for _, number := range []*int64{&m.decoded, &m.stored, &m.head} {
			if *number != math.MaxUint32 {
				continue
			}
			if len(field) < 8 || binary.LittleEndian.Uint64(field) > math.MaxInt64 {
				return m.fail("its Zip64 fields are malformed")
			}
			*number = int64(binary.LittleEndian.Uint64(field))
			field = field[8:]
		}
		return nil
	}
	return nil
}

// check returns an error if the member is unsupported.
func (m *member) check() error {
	const encrypted, strongly, masked = 1, 1 << 6, 1 << 13
	switch {
	case m.name == "" || !utf8.ValidString(m.name) || strings.ContainsRune(m.name, 0):
		return m.fail("its name is empty or not UTF-8: recreate the archive with names in UTF-8")
	case m.flags&(encrypted|strongly|masked) != 0:
		return m.fail("it is encrypted: recreate the archive without a password, and have the store encrypt")
	case m.kind == directoryMember && m.decoded != 0:
		return m.fail("it is a directory with content")
	case m.method != zipmember.Stored && m.method != zipmember.Deflated:
		return m.fail("it is compressed by method %d%s, which is not supported: recreate the archive with zip -Z deflate, or -Z store", m.method, methodName(m.method))
	case m.method == zipmember.Stored && m.stored != m.decoded:
		return m.fail("it is not compressed, but its stored size is %d bytes and its size %d", m.stored, m.decoded)
	case m.decoded > format.MaxSample:
		return m.fail("%d bytes exceed the limit of a sample, %d", m.decoded, format.MaxSample)
	case bytes.ContainsRune([]byte(m.name), '\\'):
		return m.fail("its name has a backslash, which some readers treat as a slash")
	}
	return nil
}

// methodName returns the common name of a compression method.
func methodName(method uint16) string {
	if name, ok := map[uint16]string{9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "zstd", 95: "xz", 99: "AES"}[method]; ok {
		return " (" + name + ")"
	}
	return ""
}
