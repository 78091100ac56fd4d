package importance

import (
	"errors"
	"fmt"
)

// What went wrong, for errors.Is. Errors of the store keep objstore's vocabulary.
var (
	ErrInvalid    = errors.New("invalid")                                     // a report or a request that no bucket could make valid
	ErrConflict   = errors.New("another loss was reported for this position") // see ConflictError
	ErrReadOnly   = errors.New("the bucket is read-only")                     // see ReadOnlyError
	ErrTooMany    = fmt.Errorf("%d epochs of this plan have reports that were never frozen: freeze those that are wanted, and remove the others with millrace gc --reports-older", maxOpen)
	ErrNoReports  = errors.New("no losses were reported") // of that plan and epoch
	ErrNoSnapshot = errors.New("no such snapshot")
	ErrGeneration = errors.New("the snapshot belongs to another generation of the dataset")
	ErrCorrupt    = errors.New("corrupt")
	ErrVersion    = errors.New("written by a newer program") // whole, but by rules that this program does not know
)

// ConflictError says which position has a loss already, and which. It is an ErrConflict.
type ConflictError struct {
	Position         uint64
	Stored, Reported float64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("position %d: loss %v is on record, not %v: %v", e.Position, e.Stored, e.Reported, ErrConflict)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// ReadOnlyError says that the bucket refuses writes, and what became of the report. It is an ErrReadOnly.
type ReadOnlyError struct {
	Kept bool  // in the local log: Flush sends it later
	Err  error // what the store said, or why nothing could be kept; may be nil
}

func (e *ReadOnlyError) Error() string {
	text := ErrReadOnly.Error() + ": the report is lost unless it is sent again"
	if e.Kept {
		text = ErrReadOnly.Error() + ": the report is kept in the local log"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is ErrReadOnly.
func (e *ReadOnlyError) Is(target error) bool { return target == ErrReadOnly }

// Unwrap returns what the store said.
func (e *ReadOnlyError) Unwrap() error { return e.Err }

// errNoWriter is what a Log without a Writer says.
var errNoWriter = errors.New("the store was opened for reading only")

// corrupt says what is wrong with bytes that were read back.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}
