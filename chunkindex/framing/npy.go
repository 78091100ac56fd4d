package framing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
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

// Entries of a header's Python dictionary, in which all quotes are single. A tuple of one number
// ends in a comma, and Python 2 wrote an L after long numbers.
const npyEntries = `'descr' *: *('[^'\\]*'|\[.*\])|'fortran_order' *: *(True|False)|'shape' *: *(\( *(?:(?:(?:0|[1-9]\d*)L? *, *)+(?:(?:0|[1-9]\d*)L?)?)? *\))`

var (
	npyEntry = regexp.MustCompile(npyEntries)
	npyDict  = regexp.MustCompile(`^\{ *(?:` + npyEntries + `) *(?:, *(?:` + npyEntries + `) *){2},? *\} *\n$`)
)

// parseLiteral parses the header's Python literal: a dictionary of descr, fortran_order and shape.
// It evaluates no code.
func parseLiteral(s string) (NPY, error) {
	text := strings.ReplaceAll(s, `"`, "'")
	var values [3]string
	for _, entry := range npyEntry.FindAllStringSubmatch(text, -1) {
		for i, value := range entry[1:] {
			values[i] = cmp.Or(value, values[i])
		}
	}
	descr, order, shape := values[0], values[1], values[2]
	a := NPY{Shape: []uint64{}}
	switch {
	case !npyDict.MatchString(text) || descr == "" || order == "" || shape == "":
		return a, fmt.Errorf("%.200q is not a dictionary of descr, fortran_order and shape in NumPy's notation", s)
	case descr[0] == '[':
		return a, errors.New("elements are structures of named fields, which are not supported: save each field as a plain array")
	case order == "True":
		return a, errors.New("array is in Fortran order, so a sample is not one range of bytes: save numpy.ascontiguousarray(a)")
	}
	for digits := range strings.FieldsFuncSeq(shape, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || len(a.Shape) > maxDims {
			return a, errors.New("shape has a number that is too large, or too many of them")
		}
		a.Shape = append(a.Shape, n)
	}
	var err error
	if a.DType, err = parseDType(strings.Trim(descr, "'")); err != nil {
		return a, fmt.Errorf("descr %s: %w", descr, err)
	}
	return a, nil
}
