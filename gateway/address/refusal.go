package address

import "fmt"

// Kind is the reason of a refusal. The gateway maps each kind to a status.
type Kind int

// Reasons of refusals.
const (
	Invalid       Kind = iota // a parameter or the body is invalid
	NotFound                  // the resource does not exist
	EndOfEpoch                // the batch is past the end of its epoch
	TooLarge                  // the batch exceeds a limit of the gateway
	NotAcceptable             // the dataset has no acceptable form
)

// Refusal is an error of a request, with text that the caller may read.
type Refusal struct {
	Kind   Kind
	Detail string

	Faults  []Fault // Invalid: all faults
	Batches *uint64 // EndOfEpoch: number of batches in the epoch
	Bytes   *uint64 // TooLarge: size of the body in bytes
	Limit   *int64  // TooLarge: the exceeded limit
	Cause   error   // only for the log: it may contain keys and hosts
}

// Refuse returns a refusal with a formatted detail.
func Refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// RefuseParameter returns a refusal for one parameter.
func RefuseParameter(name, format string, args ...any) error {
	q := &Query{}
	q.Fail(name, format, args...)
	return q.Err()
}

// Because sets the cause and returns the refusal.
func (r *Refusal) Because(cause error) *Refusal {
	r.Cause = cause
	return r
}

// Above sets the exceeded limit and returns the refusal.
func (r *Refusal) Above(limit int64) *Refusal {
	r.Limit = &limit
	return r
}

func (r *Refusal) Error() string {
	if r.Cause != nil {
		return r.Cause.Error()
	}
	return r.Detail
}

func (r *Refusal) Unwrap() error { return r.Cause }
