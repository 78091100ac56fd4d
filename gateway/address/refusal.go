package address

import "fmt"

// Kind is the reason why a request is refused. The gateway has one status for each.
type Kind int

// The reasons.
const (
	Invalid       Kind = iota // a parameter or the body is wrong
	NotFound                  // what the request names is not here
	EndOfEpoch                // the batch lies past the end of its epoch
	TooLarge                  // the batch exceeds a limit of the gateway
	NotAcceptable             // no form of the dataset is accepted
)

// Refusal is a request that cannot be answered, in words that its sender may read.
type Refusal struct {
	Kind   Kind
	Detail string

	Faults  []Fault // Invalid: everything that is wrong
	Batches *uint64 // EndOfEpoch: how many batches the epoch has
	Bytes   *uint64 // TooLarge: the size of the body, in bytes
	Limit   *int64  // TooLarge: the limit that was passed
	Cause   error   // for the log only: it may name keys and hosts
}

// Refuse returns a refusal. The format is that of fmt.Sprintf.
func Refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// RefuseParameter is the refusal of one parameter.
func RefuseParameter(name, format string, args ...any) error {
	q := &Query{}
	q.Fail(name, format, args...)
	return q.Err()
}

// Because adds the cause, and returns the refusal.
func (r *Refusal) Because(cause error) *Refusal {
	r.Cause = cause
	return r
}

// Above adds the limit that was passed, and returns the refusal.
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
