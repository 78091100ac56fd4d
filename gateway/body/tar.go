package body

import (
	"context"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
)

// Sizes in a tar header.
const (
	tarBlock  = 512
	tarName   = 100 // bytes of the name field
	tarPrefix = 155 // bytes of the prefix field with directories
)

// memberName returns the name of a part as a tar member.
func memberName(key, ext string) string {
	if ext == "" {
		return key
	}
	return key + "." + ext
}

// layOutTar lays out a tar. It copies samples that are stored as tar members unchanged, unless
// fields are selected. Otherwise it generates headers with fixed time, owner and mode, so that
// equal names and lengths give equal headers.
func layOutTar(ctx context.Context, b *Body, a Answer) error {
	if a.storedTar() {
		return layOutNative(ctx, b, a)
	}
	t, err := b.readTexts(ctx, a)
	if err != nil {
		return err
	}
	var header []byte
	for i, all := range t.parts {
		for _, p := range all {
			name := memberName(t.keys[i], p.Ext)
			if strings.IndexByte(name, 0) >= 0 {
				return address.Refuse(address.Invalid, "the name %q cannot be stored in a tar: request another format", address.Bounded(name))
			}
			header = appendTarHeader(header[:0], name, p.Length)
			if err := b.checkText(int64(len(header)) + tarBlock); err != nil {
				return err
			}
			b.put(header...)
			b.stretchPart(i, p)
			b.pad(int(-p.Length % tarBlock))
		}
	}
	b.pad(2 * tarBlock)
	return nil
}

// appendTarHeader appends the header of a regular file in USTAR form, with a PAX record if the name
// does not fit.
func appendTarHeader(b []byte, name string, size uint32) []byte {
	prefix, base, ok := splitTarName(name)
	if ok {
		return appendUSTAR(b, prefix, base, uint64(size), '0')
	}
	record := paxRecord("path", name)
	b = appendUSTAR(b, "", "PaxHeaders.0/member", uint64(len(record)), 'x')
	b = append(b, record...)
	b = append(b, make([]byte, -len(record)&(tarBlock-1))...)
	return appendUSTAR(b, "", name[:tarName], uint64(size), '0')
}

// splitTarName splits a name into USTAR's two fields; ok is false if it does not fit.
func splitTarName(name string) (prefix, base string, ok bool) {
	if len(name) <= tarName {
		return "", name, true
	}
	if len(name) > tarName+1+tarPrefix {
		return "", "", false
	}
	// The shortest directory that leaves a base name which fits.
	at := strings.IndexByte(name[len(name)-tarName-1:], '/')
	if at < 0 {
		return "", "", false
	}
	at += len(name) - tarName - 1
	if at == 0 || at > tarPrefix || at == len(name)-1 {
		return "", "", false
	}
	return name[:at], name[at+1:], true
}

// paxRecord returns "length key=value\n", where the length includes its own digits.
func paxRecord(key, value string) string {
	rest := len(key) + len(value) + 3
	n := rest + len(strconv.Itoa(rest))
	n = rest + len(strconv.Itoa(n))
	return strconv.Itoa(n) + " " + key + "=" + value + "\n"
}

func appendUSTAR(b []byte, prefix, name string, size uint64, kind byte) []byte {
	at := len(b)
	b = append(b, make([]byte, tarBlock)...)
	h := b[at:]
	octal := func(from, digits int, n uint64) {
		for i := from + digits - 1; i >= from; i-- {
			h[i] = byte('0' + n&7)
			n >>= 3
		}
	}
	copy(h[:tarName], name)
	octal(100, 7, 0o644)
	octal(108, 7, 0)
	octal(116, 7, 0)
	octal(124, 11, size)
	octal(136, 11, 0)
	copy(h[148:156], "        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	octal(329, 7, 0)
	octal(337, 7, 0)
	copy(h[345:345+tarPrefix], prefix)
	sum := uint64(0)
	for _, c := range h {
		sum += uint64(c)
	}
	octal(148, 6, sum)
	h[154] = 0
	return b
}
