package objstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the length in bytes of the longest key that every store supports.
const MaxKey = 1024

// CheckKey returns an error if a key cannot be stored in every store. A key consists of non-empty
// elements between single slashes, none of which is "." or "..".
func CheckKey(key string) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case len(key) > MaxKey:
		return fmt.Errorf("key has %d bytes: must be at most %d", len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q is not UTF-8", key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("key %q contains a zero byte", key)
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("key %q contains the path element %q, which is not allowed", key, element)
		}
	}
	return nil
}

// CheckRange returns the number of bytes in dst. It returns an error for a negative offset, or if
// dst is empty.
func CheckRange(offset int64, dst [][]byte) (int64, error) {
	var n int64
	for _, d := range dst {
		n += int64(len(d))
	}
	switch {
	case offset < 0:
		return 0, fmt.Errorf("negative offset %d", offset)
	case n == 0:
		return 0, errors.New("a read must have at least one byte")
	case offset+n < offset:
		return 0, fmt.Errorf("range at %d with %d bytes overflows", offset, n)
	}
	return n, nil
}

// Wrap prepends a text to the error of a function, unless it is nil. The function defers it.
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// Kind returns the name of the vocabulary's error that err wraps. It is "canceled" for the end of a
// context, "other" for any other error and "" for nil. Kind labels counters.
func Kind(err error) string {
	if err == nil {
		return ""
	}
	for _, e := range Vocabulary() {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "canceled"
	}
	return "other"
}

// Vocabulary returns the seven errors, in a fixed order.
func Vocabulary() []error {
	return []error{ErrNotFound, ErrChanged, ErrDenied, ErrThrottled, ErrUnavailable, ErrTimeout, ErrShort}
}
