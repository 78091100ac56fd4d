package peer

import (
	"errors"
	"fmt"
	"net/http"
)

// What becomes of a question that has no answer. A Holder's no is a *Refused.
var (
	// ErrDown says that the peer did not answer, not in time, or not to the end.
	ErrDown = errors.New("the peer does not answer")
	// ErrOutdone says that the bytes have been brought from elsewhere: the peer refused, or was late.
	ErrOutdone = errors.New("the bytes came from elsewhere")
	// ErrQuestion says that no peer was asked: the query is not one, its answer has no place to go, or the address is none.
	ErrQuestion = errors.New("this cannot be asked")
	// ErrMalformed says that an answer came which does not follow the protocol: too long, too short, or none of its statuses.
	ErrMalformed = errors.New("the peer's answer does not follow the protocol")
)

// The codes of refusals, as they stand in the problem's JSON.
const (
	CodeNotHere      = "not_here"
	CodeNotServed    = "not_served"
	CodeMismatch     = "mismatch"
	CodeOverloaded   = "overloaded"       // no memory for the answer, or too many are being answered
	CodeTimeout      = "timeout"          // the asker's deadline passed while the bytes were brought
	CodeStore        = "store"            // neither memory, disk nor store gave the bytes
	CodeOtherCluster = "other_cluster"    // the asker belongs to another cluster
	CodeOtherVersion = "other_version"    // the asker speaks another version of the protocol
	CodeRefused      = "refused"          // the cluster does not take the asker for a member
	CodePeerPort     = "peer_port"        // a client has come to the port that is for gateways
	CodeInvalid      = "invalid_argument" // no gateway of this version asks so
)

// row says how one code is told.
type row struct {
	code   string
	status int
	means  error // of a Holder, and what the client's errors.Is finds; nil for most
}

// rows is the table of codes.
func rows() []row {
	return []row{
		{CodeNotHere, http.StatusNotFound, ErrNotHere},
		{CodeNotServed, http.StatusNotFound, ErrNotServed},
		{CodeMismatch, http.StatusConflict, ErrMismatch},
		{CodeOverloaded, http.StatusServiceUnavailable, ErrNoRoom},
		{CodeTimeout, http.StatusGatewayTimeout, nil},
		{CodeStore, http.StatusBadGateway, nil},
		{CodeOtherCluster, http.StatusMisdirectedRequest, nil},
		{CodeOtherVersion, http.StatusConflict, nil},
		{CodeRefused, http.StatusForbidden, nil},
		{CodePeerPort, http.StatusMisdirectedRequest, nil},
		{CodeInvalid, http.StatusBadRequest, nil},
	}
}

// rowOf returns the row of a code, and one without a status for a code that no row has.
func rowOf(code string) row {
	for _, r := range rows() {
		if r.code == code {
			return r
		}
	}
	return row{}
}

// RefusalError is a refusal by another gateway. It wraps the error of the Holder: ErrNotHere,
// ErrNotServed, ErrMismatch or ErrNoRoom, the last of them also where that gateway is answering too
// much already.
type RefusalError struct {
	Status int
	Code   string // one of the codes above, or one that a later version knows
	Detail string // whole words for whoever reads the log
}

func (r *RefusalError) Error() string {
	if rowOf(r.Code).status == 0 {
		// As a gateway's data port would answer: whoever reads this at night has mistaken one port for the other.
		return fmt.Sprintf("an answer of %d %q, which a peer port does not give: %s", r.Status, r.Code, r.Detail)
	}
	return fmt.Sprintf("the peer refuses (%d %s): %s", r.Status, r.Code, r.Detail)
}

func (r *RefusalError) Unwrap() error { return rowOf(r.Code).means }

// refuse makes the refusal that a handler answers with.
func refuse(code, format string, args ...any) *RefusalError {
	return &RefusalError{Status: rowOf(code).status, Code: code, Detail: fmt.Sprintf(format, args...)}
}
