// Package watch reads files of settings that may change while the process runs. The content counts, not the time of the
// last write.
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
	// LookEvery is how long a change of a file may go unnoticed.
	LookEvery = time.Second
	// Settle is how long a content must stay as it is before it counts: a file that changes within that time is being written.
	Settle = 100 * time.Millisecond
)

// File is a file of settings.
type File struct {
	What     string // begins the errors, such as "access file"
	Name     string
	MaxBytes int // a larger file is a fault
}

// Content is what a file holds at one moment.
type Content struct {
	Text []byte
	Err  error // why the text could not be read, or is not to be trusted
}

// Same reports whether two contents are the same: the same text, or the same reason why there is none.
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

// Changed reports whether the file holds another content than the one that was seen last, and returns the new content. Two
// readings must agree: a file that is being written may be readable, and lack the half that is still to come.
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

// Settled returns what the file holds, once it is no longer being written as far as that can be told, or when ctx ends.
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
		return nil, errors.New(": no file is named")
	}
	info, err := os.Stat(f.Name) // before it is opened: to open a pipe would wait for its writer
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf(" %s: not a regular file, so it cannot be read again", f.Name)
	case info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf(" %s: every user of this machine may write it (mode %04o): chmod o-w", f.Name, info.Mode().Perm())
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
		return nil, fmt.Errorf(" %s: more than %d bytes", f.Name, f.MaxBytes)
	}
	return text, nil
}
