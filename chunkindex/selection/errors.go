package selection

import (
	"errors"
	"fmt"
)

// What went wrong, for errors.Is. Errors of the store keep objstore's vocabulary.
var (
	ErrInvalid    = errors.New("invalid")                 // a rule or a list that no dataset could make valid
	ErrReadOnly   = errors.New("the bucket is read-only") // the bucket refuses them
	ErrNotFound   = errors.New("no such object")          // the bucket has no split or quarantine of this name
	ErrNoDefault  = errors.New("no split was made")       // of this generation of the dataset
	ErrNoSubset   = errors.New("no subset of the name")   // in this split
	ErrGeneration = errors.New("it belongs to another generation of the dataset")
	ErrCorrupt    = errors.New("corrupt")
	ErrVersion    = errors.New("written by a newer program") // whole, but by rules that this program does not know
)

// corrupt says what is wrong with bytes that were read back.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}
