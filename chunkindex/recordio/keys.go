package recordio

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// names gives the records of a shard their keys.
type names interface {
	// key returns that of record n, at which the cursor is.
	key(c *format.Cursor, stem string, n uint64) (string, error)
	// end is called after the last record.
	end(c *format.Cursor) error
}

// number names records by their places.
type number struct{}

func (number) key(_ *format.Cursor, stem string, n uint64) (string, error) {
	return format.Numbered(stem, n), nil
}

func (number) end(*format.Cursor) error { return nil }

// listed names records as an .idx does: a line for each, of its key, a tab, and its offset.
type listed struct {
	name  string // of the .idx
	lines *bufio.Reader
}

func (l *listed) key(c *format.Cursor, stem string, n uint64) (string, error) {
	key, at, err := l.line(c)
	switch {
	case errors.Is(err, io.EOF):
		return "", c.Fail("%s names %d records, and here is another: %s", l.name, n, cure)
	case err != nil:
		return "", err
	case at != c.Offset():
		return "", c.Fail("%s has record %q at offset %d, and not the one that begins here: %s", l.name, key, at, cure)
	}
	return stem + "/" + key, nil
}

func (l *listed) end(c *format.Cursor) error {
	key, at, err := l.line(c)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return c.Fail("%s has record %q at offset %d, where the shard has none: %s", l.name, key, at, cure)
}

const cure = "make it again with rec2idx.py, or number the records with --match '*.rec'"

// line reads the next line. io.EOF means that there is none.
func (l *listed) line(c *format.Cursor) (key string, offset int64, err error) {
	b, err := l.lines.ReadSlice('\n')
	if len(b) == 0 || err != nil && !errors.Is(err, io.EOF) {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = c.Fail("%s has a line that is too long: %s", l.name, cure)
		}
		return "", 0, err
	}
	key, text, _ := strings.Cut(strings.TrimRight(string(b), "\r\n"), "\t")
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || key == "" {
		return "", 0, c.Fail("%s has a line %.100q, which is no key, tab and offset: %s", l.name, b, cure)
	}
	return key, int64(n), nil
}
