package peer

import (
	"errors"
	"fmt"
	"net/http"
)

// Errors of questions without an answer. If a Holder refuses a question, the error is a
// *RefusalError.
var (
	// ErrDown reports that the peer did not answer, answered too late, or sent an incomplete
	// answer.
	ErrDown = errors.New("the peer does not respond")
	// ErrOutdone reports that the bytes came from elsewhere, because the peer refused or was late.
	ErrOutdone = errors.New("the bytes came from another source")
	// ErrQuestion reports that no peer was asked, because the query, its destination or the address
	// is invalid.
	ErrQuestion = errors.New("invalid query")
	// ErrMalformed reports an answer that breaks the protocol: too long, too short, or with an
	// unknown status.
	ErrMalformed = errors.New("the peer's response violates the protocol")
)

// Codes of refusals in the problem's JSON.
const (
	CodeNotHere      = "not_here"
	CodeNotServed    = "not_served"
	CodeMismatch     = "mismatch"
	CodeOverloaded   = "overloaded"       // no memory for the answer, or too many running answers
	CodeQuota        = "quota"            // the same, in the quota of the dataset
	CodeTimeout      = "timeout"          // the asker's deadline passed while the bytes were loaded
	CodeStore        = "store"            // neither memory, disk nor store delivered the bytes
	CodeOtherCluster = "other_cluster"    // the asker belongs to another cluster
	CodeOtherVersion = "other_version"    // the asker uses another version of the protocol
	CodeRefused      = "refused"          // the cluster does not accept the asker as a member
	CodePeerPort     = "peer_port"        // a client used the port for gateways
	CodeInvalid      = "invalid_argument" // the request is invalid in this version
)

// row is the status and error of one code.
type row struct {
	code   string
	status int
	means  error // the Holder's error, which the client's errors match with errors.Is; usually nil
}

// rows returns the table of codes.
func rows() []row {
	return []row{
		{CodeNotHere, http.StatusNotFound, ErrNotHere},
		{CodeNotServed, http.StatusNotFound, ErrNotServed},
		{CodeMismatch, http.StatusConflict, ErrMismatch},
		{CodeOverloaded, http.StatusServiceUnavailable, ErrNoRoom},
		{CodeQuota, http.StatusServiceUnavailable, ErrQuota},
		{CodeTimeout, http.StatusGatewayTimeout, nil},
		{CodeStore, http.StatusBadGateway, nil},
		{CodeOtherCluster, http.StatusMisdirectedRequest, nil},
		{CodeOtherVersion, http.StatusConflict, nil},
		{CodeRefused, http.StatusForbidden, nil},
		{CodePeerPort, http.StatusMisdirectedRequest, nil},
		{CodeInvalid, http.StatusBadRequest, nil},
	}
}

// rowOf returns the row of a code. An unknown code has a row without a status.
func rowOf(code string) row {
	for _, r := range rows() {
		if r.code == code {
			return r
		}
	}
	return row{}
}

// RefusalError is a refusal by another gateway. It wraps the error of the Holder: ErrNotHere,
// ErrNotServed, ErrMismatch, ErrNoRoom or ErrQuota. ErrNoRoom also reports that the gateway has too many
// running answers.
type RefusalError struct {
	Status int
	Code   string // one of the codes above, or a code of a later version
	Detail string // explanation for the log
}

func (r *RefusalError) Error() string {
	if rowOf(r.Code).status == 0 {
		// The answer looks like that of a gateway's data port: the operator has probably
		// confused the two ports.
		return fmt.Sprintf("answer %d %q is not from a peer port: %s", r.Status, r.Code, r.Detail)
	}
	return fmt.Sprintf("the peer refused (%d %s): %s", r.Status, r.Code, r.Detail)
}

func (r *RefusalError) Unwrap() error { return rowOf(r.Code).means }

// refuse returns the refusal for a code, with a detail for the log.
func refuse(code, format string, args ...any) *RefusalError {
	return &RefusalError{Status: rowOf(code).status, Code: code, Detail: fmt.Sprintf(format, args...)}
}
