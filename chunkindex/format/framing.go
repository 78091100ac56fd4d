package format

import (
	"encoding/json"
	"errors"
)

// Framing provides the bytes around the samples of a batch in the dataset's own format.
type Framing interface {
	ContentType() string
	// Frame returns the bytes before the first sample and after the last sample, given the
	// samples' lengths. For tar, the bytes after are 1,024 zero bytes. Frame returns an error
	// for a batch that exceeds the format's limits.
	Frame(lengths []uint32) (before, after []byte, err error)
}

// Array is a Framing of batches that are flat arrays.
type Array interface {
	// Item returns the type of an element in NumPy's notation ("<u2"), and the shape of a sample.
	Item() (dtype string, shape []uint64)
}

// Bare returns a reader for the framing of a format without constants, whose batches consist only
// of samples. fields describes the parts of every sample, as far as known.
func Bare(contentType string, fields ...Field) func(json.RawMessage) (Framing, error) {
	return bare{contentType: contentType, fields: fields}.read
}

// Closed is like Bare, for batches that end with the bytes in end.
func Closed(contentType string, end []byte) func(json.RawMessage) (Framing, error) {
	return bare{contentType: contentType, end: end}.read
}

// AsTar reads the framing of a format that has neither constants nor its own framing: its batches
// are tars.
func AsTar(constants json.RawMessage) (Framing, error) {
	_, err := bare{}.read(constants)
	return nil, err
}

// bare is the Framing of a format without constants.
type bare struct {
	contentType string
	end         []byte
	fields      []Field
}

func (b bare) read(constants json.RawMessage) (Framing, error) {
	if constants != nil {
		return nil, errors.New("the format has no constants")
	}
	return b, nil
}

func (b bare) ContentType() string { return b.contentType }

func (b bare) Frame([]uint32) (before, after []byte, err error) { return nil, b.end, nil }

// Fields implements Typed.
func (b bare) Fields() []Field { return b.fields }
