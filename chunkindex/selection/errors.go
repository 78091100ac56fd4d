package selection

import (
	"errors"
	"fmt"
)

// Errors of this package. Errors of the store remain those of package objstore.
var (
	ErrInvalid    = errors.New("invalid")                     // the rule or list is invalid for any dataset
	ErrReadOnly   = errors.New("the bucket is read-only")     // the bucket denies writes
	ErrNotFound   = errors.New("no such object")              // no split, quarantine or cost table with this name
	ErrNoDefault  = errors.New("the generation has no split") // the generation has no default split
	ErrNoSubset   = errors.New("no subset has the name")      // the split has no such subset
	ErrGeneration = errors.New("it belongs to another generation of the dataset")
	ErrCorrupt    = errors.New("corrupt")
	ErrVersion    = errors.New("written by a newer program") // valid, but in a newer format
)

// corrupt returns an ErrCorrupt with a reason.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}
