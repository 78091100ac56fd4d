package scantest

import (
	"errors"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// ErrBroken is the error that a Broken reader returns at its end.
var ErrBroken = errors.New("store is gone")

// Broken returns the bytes of In, and then ErrBroken instead of io.EOF.
type Broken struct{ In io.Reader }

func (b Broken) Read(p []byte) (int, error) {
	n, err := b.In.Read(p)
	if errors.Is(err, io.EOF) {
		err = ErrBroken
	}
	return n, err
}

// Nothing is a format.Sink that discards everything.
type Nothing struct{}

// Gap discards p.
func (Nothing) Gap([]byte) error { return nil }

// Data discards the bytes.
func (Nothing) Data(*format.Sample, []byte) error { return nil }

// End does nothing.
func (Nothing) End(*format.Sample) error { return nil }
