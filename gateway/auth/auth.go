// Package auth authenticates callers of a gateway and decides about their rights.
//
// A caller presents credentials: a token, a JWT from a trusted issuer, a client certificate, or
// none. For a process on the gateway's machine, the kernel may supply the user ID. A Guard derives
// a principal from the credentials and decides which rights the principal has on which dataset. It
// does not depend on routes or status codes: package gateway calls it once per request, and again
// for each batch of a long response.
//
// A Guard decides by an access file, which it reloads when the file changes. The file is parsed
// into an immutable policy, so each request uses exactly one version.
package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Right is a permission of a caller. Read, Report and Warm are rights on a dataset, Admin is a
// right on the gateway. The zero value is not a right: no caller has it.
type Right int

// The rights, as described in docs/access.md.
const (
	None   Right = iota + 1 // every caller has it, without credentials
	Read                    // see a dataset and read its batches
	Report                  // report and freeze losses
	Warm                    // make the gateway load a dataset's chunks
	Admin                   // see metrics, statistics and profiles
)

func rightNames() []string { return []string{"", "none", "read", "report", "warm", "admin"} }

// String returns the name of the right in an access file.
func (r Right) String() string { return rightNames()[r] }

// ParseRight returns the right with the given name. It does not accept None, which cannot be
// granted.
func ParseRight(name string) (Right, bool) {
	i := slices.Index(rightNames(), name)
	return Right(i), i > int(None)
}

// anonymous is the name of callers without credentials.
const anonymous = "anonymous"

// Principal is an authenticated caller.
type Principal struct {
	// Name is the principal's name in logs: "token:trainer", "jwt:corp#alice",
	// "certificate:ops.example", "uid:1000" or "anonymous".
	Name string

	// who lists the names that match grants and limits: Name, its groups, and further names of a
	// certificate.
	who []string

	// token is the SHA-256 of the caller's token, if it has one: the current policy decides whether
	// the token is still valid.
	token *digest
	// until is the time at which a JWT or certificate expires. Zero: the caller has neither.
	until time.Time
}

// Anonymous returns the principal of callers without credentials.
func Anonymous() Principal { return Principal{Name: anonymous, who: []string{anonymous}} }

// Anonymous reports whether the caller has no credentials.
func (p Principal) Anonymous() bool { return p.Name == anonymous }

// Credentials are the credentials of a request. An Authorization header takes precedence over the
// certificate and the user, because a proxy with its own certificate may forward its callers'
// tokens.
type Credentials struct {
	Authorization []string            // values of the header
	Certificates  []*x509.Certificate // verified client certificate, followed by its chain

	// UID returns the user of the process that connected to a Unix socket, if the kernel reports
	// it. nil: another connection.
	UID func() (uid uint32, ok bool)
}

// ErrInvalid wraps every rejection of credentials. The surrounding text is for logs and never
// contains the credentials.
var ErrInvalid = errors.New("invalid credentials")

// invalid returns an error with a reason that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Limits are the limits of one principal. A zero field means no limit.
type Limits struct {
	Memory   float64 // maximum share of the memory budget for the principal's bodies, up to 1
	Requests float64 // per second
}
