package peer

import (
	"errors"
	"fmt"
	"net/http"
)

// What becomes of a question that nobody answers as he should. What a Holder says no with is a *Refused.
var (
	// ErrDown says that nobody answered, not in time, or not to the end.
	ErrDown = errors.New("the peer does not answer")
	// ErrOutdone says that the bytes have been brought from elsewhere: the peer refused, or was late.
	ErrOutdone = errors.New("the bytes came from elsewhere")
	// ErrQuestion says that nobody was asked: the query is not one, its answer has no place to go, or the address is none.
	ErrQuestion = errors.New("this cannot be asked")
	// ErrMalformed says that an answer came which does not follow the protocol: too long, too short, or none of its statuses.
	ErrMalformed = errors.New("the peer's answer does not follow the protocol")
)

// The codes of refusals, as they stand in the problem's JSON.
const (
	CodeNotHere      = "not_here"
	CodeNotServed    = "not_served"
	CodeMismatch     = "mismatch"
	CodeOverloaded   = "overloaded"    // no memory for the answer, or too many are being answered
	CodeTimeout      = "timeout"       // the asker's deadline passed while the bytes were brought
	CodeStore        = "store"         // neither memory, disk nor store gave the bytes
	CodeOtherCluster = "other_cluster" // the asker belongs to another cluster
	CodeOtherVersion = "other_version" // the asker speaks another version of the protocol
	CodeRefused      = "refused"       // whoever knows the members does not want this one
	CodeHop          = "hop"           // the request says that it was passed on, or does not say that it was not
	CodePeerPort     = "peer_port"     // a client has come to the port that is for gateways
	CodeInvalid      = "invalid_argument"
	CodeTooLarge     = "content_too_large"
	CodeMethod       = "method_not_allowed"
	CodeInternal     = "internal"
)

// row says how one code is told.
type row struct {
	code   string
	status int
	means  error // what the client's errors.Is finds; nil for most
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
		{CodeHop, http.StatusBadRequest, nil},
		{CodePeerPort, http.StatusMisdirectedRequest, nil},
		{CodeInvalid, http.StatusBadRequest, nil},
		{CodeTooLarge, http.StatusRequestEntityTooLarge, nil},
		{CodeMethod, http.StatusMethodNotAllowed, nil},
		{CodeInternal, http.StatusInternalServerError, nil},
	}
}

func rowOf(code string) (row, bool) {
	for _, r := range rows() {
		if r.code == code {
			return r, true
		}
	}
	return row{}, false
}

// Refused is an answer that says no. errors.Is finds in it what the holder said: ErrNotHere, ErrNotServed, ErrMismatch or
// ErrNoRoom, the last of them also where too much is being answered already.
type Refused struct {
	Status int
	Code   string // one of the codes above, or one that a later version knows
	Detail string // whole words for whoever reads the log
}

func (r *Refused) Error() string {
	if _, known := rowOf(r.Code); !known {
		// As a gateway's data port would answer: whoever reads this at night has mistaken one port for the other.
		return fmt.Sprintf("an answer of %d %q, which a peer port does not give: %s", r.Status, r.Code, r.Detail)
	}
	return fmt.Sprintf("the peer refuses (%d %s): %s", r.Status, r.Code, r.Detail)
}

func (r *Refused) Unwrap() error {
	known, _ := rowOf(r.Code)
	return known.means
}

// refuse makes the refusal that a handler answers with.
func refuse(code, format string, args ...any) *Refused {
	known, ok := rowOf(code)
	if !ok {
		panic("peer: no such code: " + code)
	}
	return &Refused{Status: known.status, Code: code, Detail: fmt.Sprintf(format, args...)}
}
