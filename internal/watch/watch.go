// Package watch reads configuration files that may change while the process runs. It detects
// changes by content, not by modification time.
package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// LookEvery is how often a file is checked for changes.
	LookEvery = time.Second
	// Settle is how long a content must be unchanged before it is used. A file that changes
	// within that time is still being written.
	Settle = 100 * time.Millisecond
)

// File is a configuration file.
type File struct {
	What     string // prefix of errors, such as "access file"
	Name     string
	MaxBytes int // a larger file is an error
}

// Content is the content of a file at one moment.
type Content struct {
	Text []byte
	Err  error // why the text could not be read, or must not be used
}

// Same reports whether two contents have the same text or the same error.
func (c Content) Same(d Content) bool {
	if c.Err != nil || d.Err != nil {
		return c.Err != nil && d.Err != nil && c.Err.Error() == d.Err.Error()
	}
	return bytes.Equal(c.Text, d.Text)
}

// Read reads the file.
func (f File) Read() Content {
	text, err := f.read()
	if err != nil {
		return Content{Err: fmt.Errorf("%s%w", f.What, err)}
	}
	return Content{Text: text}
}

// Changed reports whether the file's content differs from seen, and returns the new content. Two
// reads must agree, because a file that is being written may be readable but incomplete.
func (f File) Changed(ctx context.Context, seen Content) (Content, bool) {
	is := f.Read()
	if is.Same(seen) {
		return is, false
	}
	select {
	case <-ctx.Done():
		return is, false
	case <-time.After(Settle):
	}
	return is, f.Read().Same(is)
}

// Settled returns the content of the file once two reads agree, or when ctx ends.
func (f File) Settled(ctx context.Context, seen Content) Content {
	for {
		is, changed := f.Changed(ctx, seen)
		if changed || is.Same(seen) || ctx.Err() != nil {
			return is
		}
	}
}

func (f File) read() ([]byte, error) {
	if f.Name == "" {
		return nil, errors.New(": the name of the file is missing")
	}
	info, err := os.Stat(f.Name) // checked before the file is opened, because opening a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf(" %s: not a regular file, so it cannot be read again", f.Name)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf(" %s: every user of this machine can write this file (mode %04o): run chmod o-w", f.Name, info.Mode().Perm())
	}
	file, err := os.Open(f.Name)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(f.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf(": %w", err)
	case len(text) > f.MaxBytes:
		return nil, fmt.Errorf("%s: the file has more than %d bytes", f.Name, f.MaxBytes)
	}
	return text, nil
}
