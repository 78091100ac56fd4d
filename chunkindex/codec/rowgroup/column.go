package rowgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// column reads the entries of one column chunk. Each entry has levels, and a value unless it is
// null.
type column struct {
	name   string // for errors
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

// errRagged is the error for a column chunk with too few or too many entries.
var errRagged = errors.New("columns have different numbers of rows, or of elements")

// fail adds the column's name to an error.
func (c *column) fail(err error) error { return fmt.Errorf("column %s: %w", c.name, err) }

// peek returns the levels of the next entry. ok is false after the last entry.
func (c *column) peek() (now levels, ok bool, err error) {
	if c.has {
		return c.now, true, nil
	}
	if c.left == 0 {
		if ok, err := c.start(); err != nil || !ok {
			return levels{}, false, err
		}
	}
	c.left--
	c.now, c.has = levels{0, c.most.def}, true
	if c.rep != nil {
		v, err := c.rep.next()
		if err != nil || int(v) > c.most.rep {
			return levels{}, false, c.fail(fmt.Errorf("repetition levels: %w", errPage))
		}
		c.now.rep = int(v)
	}
	if c.def != nil {
		v, err := c.def.next()
		if err != nil || int(v) > c.most.def {
			return levels{}, false, c.fail(fmt.Errorf("definition levels: %w", errPage))
		}
		c.now.def = int(v)
	}
	return c.now, true, nil
}

// start makes the current page one with unread entries. It returns false after the last entry.
func (c *column) start() (bool, error) {
	for c.left == 0 {
		if c.values == 0 {
			return false, nil
		}
		if err := c.page(); err != nil {
			return false, c.fail(err)
		}
	}
	return true, nil
}

// value returns the value of the current entry and consumes the entry.
func (c *column) value() ([]byte, error) {
	c.has = false
	v, err := c.src.next()
	if err != nil {
		return nil, c.fail(err)
	}
	return v, nil
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
	h.kind, h.levels = -1, [2]int64{encRLE, encRLE}
	err = t.structure(func(id int, kind byte) error {
		switch id {
		case 1:
			return t.fieldInt(kind, &h.kind)
		case 2:
			return t.fieldInt(kind, &h.raw)
		case 3:
			return t.fieldInt(kind, &h.compressed)
		case 4:
			h.hasCRC = true
			return t.fieldInt(kind, &h.crc)
		case 5:
			return t.dataHeader(kind, []*int64{&h.values, &h.encoding, &h.levels[1], &h.levels[0]}, &h.plain)
		case 7:
			return t.dataHeader(kind, []*int64{&h.values, &h.encoding}, &h.plain)
		case 8:
			var nulls, rows int64
			return t.dataHeader(kind, []*int64{&h.values, &nulls, &rows, &h.encoding, &h.lengths[1], &h.lengths[0]}, &h.plain)
		}
		return t.skip(kind)
	})
	if h.raw < 0 || h.compressed < 0 || h.values < 0 || h.lengths[0] < 0 || h.lengths[1] < 0 {
		err = errPage
	}
	return h, err
}

// dataHeader reads a page's data header, which begins with numbers. In version 2, the seventh field
// states whether the page is compressed.
func (t *thrift) dataHeader(kind byte, into []*int64, plain *bool) error {
	return t.fieldStruct(kind, func(id int, kind byte) error {
		if id >= 1 && id <= len(into) {
			return t.fieldInt(kind, into[id-1])
		}
		if id == 7 && len(into) == 6 {
			packed := true
			err := fieldBool(kind, &packed)
			*plain = !packed
			return err
		}
		return t.skip(kind)
	})
}

// page starts the next data page. It reads a preceding dictionary and skips pages of other types.
func (c *column) page() error {
	t := &thrift{b: c.pages}
	h, err := t.pageHeader()
	if err != nil {
		return fmt.Errorf("page header: %w", err)
	}
	body := c.pages[t.off:]
	if h.compressed > int64(len(body)) {
		return fmt.Errorf("page of %d bytes exceeds its column chunk: %w", h.compressed, errPage)
	}
	body, c.pages = body[:h.compressed], body[h.compressed:]
	if h.hasCRC && crc32.ChecksumIEEE(body) != uint32(h.crc) {
		return errors.New("checksum of a page does not match")
	}
	switch h.kind {
	case pageData, pageDataV2:
		if h.values > c.values {
			return fmt.Errorf("page has %d values, but only %d are left in the column chunk: %w", h.values, c.values, errPage)
		}
		c.values -= h.values
		c.left = h.values
		if h.kind == pageData {
			return c.version1(&h, body)
		}
		return c.version2(&h, body)
	case pageDictionary:
		return c.dictionary(&h, body)
	}
	return nil
}

// decompress returns the decompressed bytes of a page or of its values. They are in allocated
// memory, or in body if it is not compressed.
func (c *column) decompress(codec int64, body []byte, raw int64) ([]byte, error) {
	if codec == packNone {
		if raw != int64(len(body)) {
			return nil, errPage
		}
		return body, nil
	}
	if raw > most(codec, len(body)) {
		return nil, fmt.Errorf("page of %d bytes claims to decompress to %d: %w", len(body), raw, errPage)
	}
	into, err := c.mem.alloc(raw)
	if err != nil {
		return nil, err
	}
	if err := c.unpack.unpack(codec, into, body); err != nil {
		return nil, fmt.Errorf("page does not decompress: %w", err)
	}
	return into, nil
}

// unpacked returns the decompressed bytes of a data page. A row with lists may still use values of
// the preceding page. That page's memory is therefore released one page later.
func (c *column) unpacked(codec int64, body []byte, raw int64) ([]byte, error) {
	if c.most.rep == 0 {
		c.held[1], c.held[0] = c.held[0], nil
	}
	c.mem.giveBack(c.held[1])
	c.held[0], c.held[1] = nil, c.held[0]
	b, err := c.decompress(codec, body, raw)
	if err == nil && codec != packNone {
		c.held[0] = b
	}
	return b, err
}

func (c *column) version1(h *pageHeader, body []byte) error {
	b, err := c.unpacked(c.codec, body, h.raw)
	if err != nil {
		return err
	}
	c.rep, c.def = nil, nil
	for i, most := range []int{c.most.rep, c.most.def} {
		if most == 0 {
			continue
		}
		if h.levels[i] != encRLE {
			return fmt.Errorf("levels in encoding %d are not supported, since only very old writers use it: write the file again", h.levels[i])
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return fmt.Errorf("levels: %w", errPage)
		}
		n := binary.LittleEndian.Uint32(b)
		c.setLevels(i, b[4:4+n])
		b = b[4+n:]
	}
	c.src, err = c.open(h.encoding, b)
	return err
}

func (c *column) setLevels(i int, b []byte) {
	if i == 0 {
		c.rep = newHybrid(b, width(c.most.rep))
	} else {
		c.def = newHybrid(b, width(c.most.def))
	}
}

func (c *column) version2(h *pageHeader, body []byte) error {
	c.rep, c.def = nil, nil
	for i, most := range []int{c.most.rep, c.most.def} {
		n := h.lengths[i]
		if n > int64(len(body)) || n > h.raw {
			return fmt.Errorf("levels: %w", errPage)
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
	b, err := c.unpacked(codec, body, h.raw)
	if err != nil {
		return err
	}
	c.src, err = c.open(h.encoding, b)
	return err
}

func (c *column) dictionary(h *pageHeader, body []byte) error {
	if c.dict != nil {
		return errors.New("column chunk has two dictionaries")
	}
	if h.encoding != encPlain && h.encoding != encPlainDictionary {
		return fmt.Errorf("dictionary in encoding %d: %w", h.encoding, errPage)
	}
	b, err := c.decompress(c.codec, body, h.raw)
	if err != nil {
		return err
	}
	if c.leaf.size == 0 {
		if err := c.mem.take(8 * min(h.values, int64(len(b)/4))); err != nil {
			return err
		}
	}
	c.dict, err = newDictionary(c.leaf, b, h.values)
	return err
}
