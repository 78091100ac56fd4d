package framing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	npyMagic  = "\x93NUMPY"
	npyAlign  = 64 // alignment of the first element in the file
	npyGrowth = 21 // number of digits that NumPy reserves for the first axis, so that an array can grow in place
)

// NPYHeader returns the header of an .npy file of version 1.0 for n samples of this type and shape,
// byte-identical to the header that NumPy's save writes. dtype and shape are the results of
// format.Array's Item.
func NPYHeader(dtype string, n uint64, shape []uint64) []byte {
	var dims strings.Builder
	for _, d := range append([]uint64{n}, shape...) {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	tuple := strings.TrimSuffix(dims.String(), " ")
	if len(shape) > 0 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, tuple)
	text += strings.Repeat(" ", max(0, npyGrowth-len(strconv.FormatUint(n, 10))))
	before := len(npyMagic) + 2 + 2
	text += strings.Repeat(" ", npyAlign-(before+len(text)+1)%npyAlign) + "\n"
	b := append(make([]byte, 0, before+len(text)), npyMagic+"\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

// NPY is the content of an .npy file's header.
type NPY struct {
	DType DType
	Shape []uint64
	Start int64 // offset of the first element in the file
}

// Layout returns the layout of a sample. Each entry of the first axis is one sample.
func (a NPY) Layout() (Layout, error) {
	if len(a.Shape) == 0 {
		return Layout{}, errors.New("array has no dimensions, so it has no samples")
	}
	return NewLayout(a.DType, a.Shape[1:])
}

// ReadNPY reads the header of an .npy file. head holds the first bytes of the file, up to the
// number that a survey reads.
func ReadNPY(head []byte) (NPY, error) {
	if len(head) < len(npyMagic)+2 || string(head[:len(npyMagic)]) != npyMagic {
		return NPY{}, errors.New("does not begin with the magic bytes of an .npy file")
	}
	major, minor := head[6], head[7]
	if major < 1 || major > 3 || minor != 0 {
		return NPY{}, fmt.Errorf("version %d.%d of the .npy format is unknown", major, minor)
	}
	width := 4
	if major == 1 {
		width = 2
	}
	start := len(npyMagic) + 2 + width
	if len(head) < start {
		return NPY{}, errors.New("header is truncated")
	}
	n := uint64(binary.LittleEndian.Uint16(head[8:]))
	if major > 1 {
		n = uint64(binary.LittleEndian.Uint32(head[8:]))
	}
	if n > uint64(len(head)-start) {
		return NPY{}, fmt.Errorf("header of %d bytes is truncated, or longer than the limit", n)
	}
	end := start + int(n)
	a, err := parseLiteral(string(head[start:end]))
	if err != nil {
		return NPY{}, fmt.Errorf("header: %w", err)
	}
	a.Start = int64(end)
	return a, nil
}

// parseLiteral parses the header's Python literal: a dictionary of descr, fortran_order and shape.
// It evaluates no code.
func parseLiteral(s string) (NPY, error) {
	text, ok := strings.CutSuffix(s, "\n")
	if !ok {
		return NPY{}, errors.New("does not end in a line feed")
	}
	l := literal{rest: strings.TrimRight(text, " ")}
	a, seen := NPY{}, map[string]bool{}
	l.want("{")
	for !l.take("}") && l.err == nil {
		key := l.text()
		l.want(":")
		if seen[key] {
			return NPY{}, fmt.Errorf("has the entry %s twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			a.DType = l.dtype()
		case "fortran_order":
			l.cOrder()
		case "shape":
			a.Shape = l.tuple()
		default:
			l.fail("entry %.40q is unknown", key)
		}
		if !l.take(",") && !strings.HasPrefix(l.rest, "}") {
			l.fail("entries are not separated by commas")
		}
	}
	if l.rest != "" {
		l.fail("%.40q follows the dictionary", l.rest)
	}
	if len(seen) != 3 {
		l.fail("must have descr, fortran_order and shape")
	}
	return a, l.err
}

// literal parses Python's notation from the front of the text. It stops at the first error.
type literal struct {
	rest string
	err  error
}

func (l *literal) fail(what string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(what, args...)
	}
}

// take consumes a mark and the spaces around it, if the remaining text begins with the mark.
func (l *literal) take(mark string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(l.rest, " "), mark)
	if ok && l.err == nil {
		l.rest = strings.TrimLeft(rest, " ")
	}
	return ok && l.err == nil
}

func (l *literal) want(mark string) {
	if !l.take(mark) {
		l.fail("want %q before %.40q", mark, l.rest)
	}
}

// text parses a string without escapes.
func (l *literal) text() string {
	for _, quote := range []string{"'", `"`} {
		inside, begun := strings.CutPrefix(l.rest, quote)
		if !begun {
			continue
		}
		s, rest, ok := strings.Cut(inside, quote)
		if !ok || strings.ContainsAny(s, "\\\n") {
			l.fail("a string has no end, or contains an escape")
			return ""
		}
		l.rest = strings.TrimLeft(rest, " ")
		return s
	}
	l.fail("want a string before %.40q", l.rest)
	return ""
}

func (l *literal) dtype() DType {
	if strings.HasPrefix(l.rest, "[") {
		l.fail("elements are structures of named fields, which are not supported: save each field as a plain array")
		return DType{}
	}
	s := l.text()
	if l.err != nil {
		return DType{}
	}
	d, err := parseDType(s)
	if err != nil {
		l.fail("descr %.100q: %w", s, err)
	}
	return d
}

func (l *literal) cOrder() {
	switch {
	case l.take("False"):
	case l.take("True"):
		l.fail("array is in Fortran order, so a sample is not one range of bytes: save numpy.ascontiguousarray(a)")
	default:
		l.fail("fortran_order is neither True nor False")
	}
}

// tuple parses numbers in parentheses. A single number must be followed by a comma.
func (l *literal) tuple() []uint64 {
	shape := []uint64{}
	l.want("(")
	comma := true
	for !l.take(")") && l.err == nil {
		end := strings.IndexFunc(l.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 || !comma || end > 1 && l.rest[0] == '0' {
			l.fail("shape is not a tuple of numbers")
			return nil
		}
		n, err := strconv.ParseUint(l.rest[:end], 10, 63)
		if err != nil || len(shape) > maxDims {
			l.fail("shape has a number that is too large, or too many of them")
			return nil
		}
		l.rest, shape = strings.TrimPrefix(l.rest[end:], "L"), append(shape, n) // Python 2 wrote an L after long numbers
		comma = l.take(",")
	}
	if len(shape) == 1 && !comma {
		l.fail("shape is not a tuple of numbers")
	}
	return shape
}
