package importance

import (
	"errors"
	"fmt"
)

// Errors of this package. Errors of the store remain those of package objstore.
var (
	ErrInvalid    = errors.New("invalid")                                                 // the report or request is invalid for any bucket
	ErrConflict   = errors.New("a different loss was already reported for this position") // see ConflictError
	ErrReadOnly   = errors.New("the bucket is read-only")                                 // see ReadOnlyError
	ErrTooMany    = fmt.Errorf("%d epochs of this plan have reports that were never frozen: freeze the epochs that you need, and remove the reports of the others with millrace gc --reports-older", maxOpen)
	ErrNoReports  = errors.New("no losses were reported") // the plan and epoch have no reports
	ErrNoSnapshot = errors.New("no such snapshot")
	ErrGeneration = errors.New("the snapshot belongs to another generation of the dataset")
	ErrCorrupt    = errors.New("corrupt")
	ErrVersion    = errors.New("written by a newer program") // valid, but in a newer format
)

// ConflictError reports that a position already has a different loss. It matches ErrConflict.
type ConflictError struct {
	Position         uint64
	Stored, Reported float64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("position %d: the stored loss is %v, the reported loss %v: %v", e.Position, e.Stored, e.Reported, ErrConflict)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// ReadOnlyError reports that the bucket denies writes, and whether the local log stores the report.
// It matches ErrReadOnly.
type ReadOnlyError struct {
	Kept bool  // the report is in the local log; Flush sends it later
	Err  error // the store's error, or the reason why the local log failed; may be nil
}

func (e *ReadOnlyError) Error() string {
	text := ErrReadOnly.Error() + ": the report is lost unless you send it again"
	if e.Kept {
		text = ErrReadOnly.Error() + ": the report is stored in the local log"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is reports whether target is ErrReadOnly.
func (e *ReadOnlyError) Is(target error) bool { return target == ErrReadOnly }

// Unwrap returns the store's error.
func (e *ReadOnlyError) Unwrap() error { return e.Err }

// errNoWriter is the error of a Log without a Writer.
var errNoWriter = errors.New("the store was opened for reading only")

// corrupt returns an ErrCorrupt with a reason.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}
