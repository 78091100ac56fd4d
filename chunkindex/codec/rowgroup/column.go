package rowgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
)

// column reads the entries of one column chunk. Each entry has levels, and a value unless it is
// null.
type column struct {
	name   string // for errors
	index  int    // number of the column
	leaf   leaf
	most   levels // maximum levels of the column
	codec  int64
	pages  []byte // unread rest of the column chunk
	values int64  // number of entries in the unread pages

	unpack *unpacker
	mem    *memory
	dict   *dictionary
	held   [2][]byte // memory of the current page and of the preceding page

	left int64 // number of unread entries in the current page
	rep  *hybrid
	def  *hybrid
	src  source
	now  levels // levels of the current entry
	has  bool   // now is valid

	// The entries that columnar decodes.
	gaps  []gap    // the entries that are null
	views [][]byte // values of variable size, and nil for each gap
}

// levels are the repetition and definition levels of an entry. The repetition level identifies the
// list that the entry continues. The definition level states how much of the entry's path is
// present.
type levels struct{ rep, def int }

// errLevel is the error for levels above the maximum of the column.
var errLevel = fmt.Errorf("levels: %w", errPage)

// errRagged is the error for a column chunk with too few or too many entries.
var errRagged = errors.New("columns have different numbers of rows, or of elements")

// start makes the current page one with unread entries. It returns false after the last entry.
func (c *column) start() bool {
	for c.left == 0 {
		if c.values == 0 {
			return false
		}
		c.page()
	}
	return true
}

// peek returns the levels of the next entry. ok is false after the last entry.
func (c *column) peek() (now levels, ok bool) {
	c.mem.reading = c.index
	if c.has {
		return c.now, true
	}
	if !c.start() {
		return levels{}, false
	}
	c.left--
	c.now, c.has = levels{0, c.most.def}, true
	if c.rep != nil {
		c.now.rep = int(c.rep.next())
	}
	if c.def != nil {
		c.now.def = int(c.def.next())
	}
	if c.now.rep > c.most.rep || c.now.def > c.most.def {
		fail(errLevel)
	}
	return c.now, true
}

// must returns the levels of the next entry, and fails if there is no further entry.
func (c *column) must() levels {
	now, ok := c.peek()
	if !ok {
		c.fail(errRagged)
	}
	return now
}

// value returns the value of the entry that was peeked last, and consumes the entry.
func (c *column) value() []byte {
	c.has = false
	return c.src.next()
}

// fail raises an error of this column.
func (c *column) fail(err error) {
	c.mem.reading = c.index
	fail(err)
}

// pageHeader is the header that precedes a page.
type pageHeader struct {
	kind       int64
	raw        int64 // decompressed bytes
	compressed int64
	crc        int64
	hasCRC     bool
	values     int64
	encoding   int64
	levels     [2]int64 // encodings of the repetition and definition levels, in version 1
	lengths    [2]int64 // lengths in bytes of the repetition and definition levels, in version 2
	plain      bool     // in version 2: the values are not compressed
}

// Page types with the numbers that Parquet defines.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3
)

func (t *thrift) pageHeader() (h pageHeader, err error) {
	defer catch("page header: ", &err)
	const none = math.MinInt64
	h.kind, h.crc, h.levels = -1, none, [2]int64{encRLE, encRLE}
	packed := true
	t.read(typeStruct, structFields{
		1: &h.kind, 2: &h.raw, 3: &h.compressed, 4: &h.crc,
		5: structFields{1: &h.values, 2: &h.encoding, 3: &h.levels[1], 4: &h.levels[0]},
		7: structFields{1: &h.values, 2: &h.encoding},
		8: structFields{1: &h.values, 4: &h.encoding, 5: &h.lengths[1], 6: &h.lengths[0], 7: &packed},
	})
	if min(h.raw, h.compressed, h.values, h.lengths[0], h.lengths[1]) < 0 {
		fail(errPage)
	}
	h.hasCRC, h.plain = h.crc != none, !packed
	return h, nil
}

// page starts the next data page. It reads a preceding dictionary and skips pages of other types.
func (c *column) page() {
	t := &thrift{b: c.pages}
	h, err := t.pageHeader()
	if err != nil {
		fail(err)
	}
	body := c.pages[t.off:]
	if h.compressed > int64(len(body)) {
		fail(fmt.Errorf("page of %d bytes exceeds its column chunk: %w", h.compressed, errPage))
	}
	body, c.pages = body[:h.compressed], body[h.compressed:]
	if h.hasCRC && crc32.ChecksumIEEE(body) != uint32(h.crc) {
		fail(errors.New("checksum of a page does not match"))
	}
	switch h.kind {
	case pageData, pageDataV2:
		if h.values > c.values {
			fail(fmt.Errorf("page has %d values, but only %d are left in the column chunk: %w", h.values, c.values, errPage))
		}
		c.values -= h.values
		c.left = h.values
		c.rep, c.def = nil, nil
		if h.kind == pageData {
			c.version1(&h, body)
		} else {
			c.version2(&h, body)
		}
	case pageDictionary:
		c.dictionary(&h, body)
	}
}

// decompress returns the decompressed bytes of a page or of its values. They are in allocated
// memory, or in body if it is not compressed.
func (c *column) decompress(codec int64, body []byte, raw int64) []byte {
	if codec == packNone {
		if raw != int64(len(body)) {
			fail(errPage)
		}
		return body
	}
	if raw > most(codec, len(body)) {
		fail(fmt.Errorf("page of %d bytes claims to decompress to %d: %w", len(body), raw, errPage))
	}
	into := c.mem.alloc(raw)
	if err := c.unpack.unpack(codec, into, body); err != nil {
		fail(fmt.Errorf("page does not decompress: %w", err))
	}
	return into
}

// unpacked returns the decompressed bytes of a data page. A row with lists may still use values of
// the preceding page. That page's memory is therefore released one page later.
func (c *column) unpacked(codec int64, body []byte, raw int64) []byte {
	if c.most.rep == 0 {
		c.held[1], c.held[0] = c.held[0], nil
	}
	c.mem.giveBack(c.held[1])
	c.held[0], c.held[1] = nil, c.held[0]
	b := c.decompress(codec, body, raw)
	if codec != packNone {
		c.held[0] = b
	}
	return b
}

func (c *column) version1(h *pageHeader, body []byte) {
	b := c.unpacked(c.codec, body, h.raw)
	for i, most := range []int{c.most.rep, c.most.def} {
		if most == 0 {
			continue
		}
		if h.levels[i] != encRLE {
			fail(fmt.Errorf("levels in encoding %d are not supported, since only very old writers use it: write the file again", h.levels[i]))
		}
		var own []byte
		own, b = cutLength(b)
		c.setLevels(i, own)
	}
	c.src = c.open(h.encoding, b)
}

// cutLength returns the bytes at the start of b that follow their length, and the rest.
func cutLength(b []byte) (own, rest []byte) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		fail(errPage)
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n:n], b[n:]
}

func (c *column) setLevels(i int, b []byte) {
	if i == 0 {
		c.rep = newHybrid(b, bits.Len(uint(c.most.rep)))
	} else {
		c.def = newHybrid(b, bits.Len(uint(c.most.def)))
	}
}

func (c *column) version2(h *pageHeader, body []byte) {
	for i, most := range []int{c.most.rep, c.most.def} {
		n := h.lengths[i]
		if n > int64(len(body)) || n > h.raw {
			fail(errLevel)
		}
		if most > 0 {
			c.setLevels(i, body[:n])
		}
		body, h.raw = body[n:], h.raw-n
	}
	codec := c.codec
	if h.plain || h.raw == 0 {
		codec, body = packNone, body[:min(int64(len(body)), h.raw)]
	}
	c.src = c.open(h.encoding, c.unpacked(codec, body, h.raw))
}

func (c *column) dictionary(h *pageHeader, body []byte) {
	if c.dict != nil {
		fail(errors.New("column chunk has two dictionaries"))
	}
	if h.encoding != encPlain && h.encoding != encPlainDictionary {
		fail(fmt.Errorf("dictionary in encoding %d: %w", h.encoding, errPage))
	}
	b := c.decompress(c.codec, body, h.raw)
	if c.leaf.size == 0 {
		c.mem.take(8 * min(h.values, int64(len(b)/4)))
	}
	c.dict = newDictionary(c.leaf, b, h.values)
}
