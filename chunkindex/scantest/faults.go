package scantest

import (
	"errors"
	"io"
)

// ErrBroken is the fault in which a Broken reader ends.
var ErrBroken = errors.New("store is gone")

// Broken reads what In has, and ends in ErrBroken instead of its end.
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

// Begin keeps nothing.
func (Nothing) Begin(string) error { return nil }

// Ahead keeps nothing.
func (Nothing) Ahead(int64) error { return nil }

// Data keeps nothing.
func (Nothing) Data([]byte) error { return nil }

// LineFeed keeps nothing.
func (Nothing) LineFeed() error { return nil }

// Again keeps nothing.
func (Nothing) Again([]byte) error { return nil }

// BeginPart keeps nothing.
func (Nothing) BeginPart(string) error { return nil }

// EndPart keeps nothing.
func (Nothing) EndPart() error { return nil }

// End keeps nothing.
func (Nothing) End() error { return nil }
