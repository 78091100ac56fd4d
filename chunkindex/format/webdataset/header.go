package webdataset

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const blockSize = 512

// header holds the fields of a tar header that determine a member's name, size and type.
type header struct {
	name string
	size int64
	kind byte
}

var (
	errChecksum = errors.New("header checksum is wrong")
	errNumber   = errors.New("header has a malformed number")
)

// parseHeader parses a header block that is not all zeros.
func parseHeader(b []byte) (header, error) {
	if !checksumOK(b) {
		return header{}, errChecksum
	}
	size, ok := number(b[124:136])
	if !ok || size < 0 {
		return header{}, errNumber
	}
	h := header{name: text(b[:100]), size: size, kind: b[156]}
	switch string(b[257:263]) {
	case "ustar ": // GNU tar stores times in the field of the prefix
		if !timeField(b[345:357]) || !timeField(b[357:369]) {
			return header{}, errNumber
		}
	case "ustar\x00":
		prefix := b[345:500]
		if string(b[508:512]) == "tar\x00" { // star stores times after a shorter prefix
			prefix = b[345:476]
		}
		if p := text(prefix); p != "" {
			h.name = p + "/" + h.name
		}
	}
	return h, nil
}

// checksumOK accepts sums of unsigned bytes. It also accepts sums of signed bytes, which old
// archivers wrote.
func checksumOK(b []byte) bool {
	want, ok := octal(b[148:156])
	if !ok {
		return false
	}
	var unsigned, signed int64
	for i, c := range b[:blockSize] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return want == unsigned || want == signed
}

// number parses octal digits or, if the first bit is set, a base-256 number.
func number(b []byte) (int64, bool) {
	if len(b) == 0 || b[0]&0x80 == 0 {
		return octal(b)
	}
	if b[0]&0x40 != 0 {
		return 0, false // negative
	}
	n := int64(b[0] & 0x3f)
	for _, c := range b[1:] {
		if n >= 1<<54 {
			return 0, false
		}
		n = n<<8 | int64(c)
	}
	return n, true
}

// octal parses digits between spaces, up to a NUL. It rejects digits after a leading NUL. Readers
// disagree on whether to skip the NUL or to read 0, so they would find different members after it.
func octal(b []byte) (int64, bool) {
	s := strings.TrimLeft(string(b), " ")
	if i := strings.IndexByte(s, 0); i == 0 && strings.Trim(s, " \x00") != "" {
		return 0, false
	} else if i >= 0 {
		s = s[:i]
	}
	s = strings.TrimRight(s, " ")
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(s, 8, 62)
	return int64(n), err == nil
}

// timeField reports whether a field is a time or empty. For other content, readers disagree on
// whether it is the start of the name.
func timeField(b []byte) bool {
	switch {
	case b[0] == 0:
		return true
	case b[0]&0x80 != 0:
		_, ok := number(b)
		return ok
	}
	return strings.Trim(text(bytes.Trim(b, " \x00")), "01234567") == ""
}

// text returns a field up to its first NUL.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// paxRecords parses the records of an extended header: "length key=value\n".
func paxRecords(b []byte, visit func(key, value string) error) error {
	for len(b) > 0 {
		sp := bytes.IndexByte(b, ' ')
		if sp <= 0 || sp > 10 || !digits(b[:sp]) {
			return errors.New("extended header is malformed")
		}
		n, err := strconv.Atoi(string(b[:sp]))
		if err != nil || n < sp+3 || n > len(b) || b[n-1] != '\n' {
			return errors.New("extended header is malformed")
		}
		key, value, ok := strings.Cut(string(b[sp+1:n-1]), "=")
		if !ok || key == "" || strings.IndexByte(key, 0) >= 0 {
			return errors.New("extended header is malformed")
		}
		if err := visit(key, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
