package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// kind is how an object holds values.
type kind int

const (
	lines  kind = iota // one value per line, or none
	array              // elements of one array
	stream             // values one after another, some of them on several lines
	single             // one value on several lines
	line               // one value on one line: a sample of JSON Lines, or a value of its own
	other              // no JSON object
)

// decoded reports whether the values are decoded into lines.
func (k kind) decoded() bool { return k == array || k == stream || k == single }

// several reports whether the object certainly holds several samples.
func (k kind) several() bool { return k == lines || k == array || k == stream }

// looks is the number of single-line objects after which byContent gives up: each is likely a value
// of its own.
const looks = 4

// byContent returns the kinds of objects. If the user names the format, it inspects all of them and
// ok is true. Otherwise ok reports whether each may hold several samples, and one of the first does.
func byContent(ctx context.Context, l format.Listing, maybe []format.Object, named bool) (kinds map[string]kind, ok bool, err error) {
	kinds = make(map[string]kind, len(maybe))
	ok, several, looked := true, named, 0
	err = format.EachHead(ctx, l, maybe, func(o format.Object, head []byte) (bool, error) {
		k, err := look(ctx, l, o, head, named)
		kinds[o.Key] = k
		ok = named || k != other && k != single
		several = several || k.several() && o.Size > 0
		looked++
		return ok && (several || looked < looks), err
	})
	return kinds, ok && several, err
}

// maxLook limits the search for the end of an object's first value. Users with longer values must
// name the format.
const maxLook = 16 << 20

// look returns the kind of an object. It reads more of the object if head ends inside the first
// value.
func look(ctx context.Context, l format.Listing, o format.Object, head []byte, named bool) (kind, error) {
	for n := int64(format.HeadSize); ; {
		if fault := unreadable(head); fault != "" {
			return other, fmt.Errorf("object %s: %s", o.Key, fault)
		}
		k, sure := guess(head, int64(len(head)) < n, named)
		if sure || n >= maxLook {
			return k, nil
		}
		n *= 64
		var err error
		if head, err = l.First(ctx, o.Key, n); err != nil {
			return other, err
		}
	}
}

// unreadable returns the error for an object that is compressed or not UTF-8, and is named like a
// text, or "".
func unreadable(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")):
		return "it is compressed by gzip, but its name does not say so: let its name end in .gz"
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return "it is UTF-16, not UTF-8: convert it with iconv -f UTF-16 -t UTF-8"
	}
	return ""
}

// trim removes a byte order mark and white space from the start of a text.
func trim(text []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(text, []byte(mark)), " \t\r\n")
}

// guess returns the kind of an object that begins with head. sure is false if a longer head may show
// another kind. whole reports whether head is the whole object.
func guess(head []byte, whole, named bool) (k kind, sure bool) {
	text := trim(head)
	switch {
	case len(text) == 0:
		return lines, true
	case text[0] == '[' && (named || ofObjects(text)):
		first, rest, _ := bytes.Cut(text, []byte("\n"))
		if json.Valid(first) && bytes.HasPrefix(trim(rest), []byte("[")) {
			return other, true // lines of arrays
		}
		return array, true
	case text[0] != '{':
		return other, true
	}
	in := json.NewDecoder(bytes.NewReader(text))
	var first json.RawMessage
	if in.Decode(&first) != nil {
		return other, whole
	}
	after := text[in.InputOffset():]
	rest := trim(after)
	oneLine := !bytes.ContainsAny(first, "\r\n")
	switch {
	case len(rest) == 0 && oneLine:
		return line, whole
	case len(rest) == 0:
		return single, whole
	case rest[0] != '{':
		return other, true
	case !oneLine || !bytes.Contains(after[:len(after)-len(rest)], []byte("\n")):
		return stream, true
	}
	// The first value has a line of its own. The second one decides, unless it is cut.
	if second, _, ended := bytes.Cut(rest, []byte("\n")); ended && !json.Valid(second) {
		return stream, true
	}
	return lines, true
}

// ofObjects reports whether a text begins like an array of objects, or is an array without elements.
func ofObjects(text []byte) bool {
	first := trim(text[1:])
	return bytes.HasPrefix(first, []byte("{")) || len(first) > 0 && first[0] == ']' && len(trim(first[1:])) == 0
}
