package scantest

import (
	"errors"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// ErrBroken is the error at the end of a Broken reader.
var ErrBroken = errors.New("store is gone")

// Broken reads the bytes of In, and returns ErrBroken instead of io.EOF.
type Broken struct{ In io.Reader }

func (b Broken) Read(p []byte) (int, error) {
	n, err := b.In.Read(p)
	if errors.Is(err, io.EOF) {
		err = ErrBroken
	}
	return n, err
}

// Nothing is a format.Sink that keeps nothing.
type Nothing struct{}

// Gap keeps nothing.
func (Nothing) Gap([]byte) error { return nil }

// Data keeps nothing.
func (Nothing) Data(*format.Sample, []byte) error { return nil }

// End keeps nothing.
func (Nothing) End(*format.Sample) error { return nil }
