// Package words formats counts, sizes, durations and names for people, flags and shells.
package words

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Count returns a number with the noun that it counts: 1 shard, 2,000 shards.
func Count[N ~int | ~uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}

// Size formats a number of bytes so that a flag parses it to the same number: 4GiB.
func Size(n int64) string {
	binary, decimal := exact(n, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB"), exact(n, 1000, "B", "kB", "MB", "GB", "TB", "PB")
	if len(decimal)+1 < len(binary) {
		return decimal
	}
	return binary
}

// exact formats a number in the largest unit in which it is whole.
func exact(n, base int64, units ...string) string {
	i := 0
	for n != 0 && n%base == 0 && i < len(units)-1 {
		n /= base
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// Duration formats d like time.Duration, but omits zero minutes and seconds at the end, and writes
// whole days from two days on.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Printable formats a name as one line for a terminal. It quotes the name if it is not printable.
func Printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(name)
	}
	return name
}

// Quoted formats a word so that a shell reads it as one word.
func Quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/:.-_=,+@%", r) && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
