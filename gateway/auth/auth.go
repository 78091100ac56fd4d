// Package auth says who asks a gateway, and what the caller may do.
//
// A caller shows credentials: a token, a JWT of an issuer that the operator trusts, a client
// certificate, or none. Of a process on the gateway's machine the kernel may say which user's it is. A Guard makes a principal of them, and answers which rights the principal
// has on which dataset. It knows neither routes nor status codes: package gateway asks it once for
// each request, and again for each batch of a long answer.
//
// A Guard decides by an access file, which it reads again when the file changes. The file is parsed
// into a policy, which nothing changes afterwards: a request looks at one policy or at the next.
package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Right is something that a caller may do. Read, Report and Warm are rights on a dataset, Admin is
// one on the gateway. The zero value is no right at all: nobody has it.
type Right int

// The rights, as docs/access.md describes them.
const (
	None   Right = iota + 1 // everybody has it, and shows no credentials for it
	Read                    // see a dataset and read its batches
	Report                  // report losses and freeze them
	Warm                    // have a dataset's chunks brought into the gateway
	Admin                   // see metrics, statistics and profiles
)

func rightNames() []string { return []string{"", "none", "read", "report", "warm", "admin"} }

// String returns the name that an access file uses.
func (r Right) String() string { return rightNames()[r] }

// ParseRight returns the right of a name. None is no right that anybody can be given.
func ParseRight(name string) (Right, bool) {
	i := slices.Index(rightNames(), name)
	return Right(i), i > int(None)
}

// anonymous is the name of every caller that shows no credentials.
const anonymous = "anonymous"

// Principal is who asks.
type Principal struct {
	// Name is what logs call the principal: "token:trainer", "jwt:corp#alice",
	// "certificate:ops.example", "uid:1000" or "anonymous".
	Name string

	// who are the names by which grants and limits mean the principal: Name, its groups, and the
	// further names of a certificate.
	who []string

	// token is the SHA-256 of the caller's token, if it has shown one: the policy in use says whether
	// the token still stands.
	token *digest
	// until is when a JWT or a certificate ends. Zero: the caller has shown neither.
	until time.Time
}

// Anonymous is the principal of a caller without credentials.
func Anonymous() Principal { return Principal{Name: anonymous, who: []string{anonymous}} }

// Anonymous reports whether the caller has shown no credentials.
func (p Principal) Anonymous() bool { return p.Name == anonymous }

// Credentials are what a request shows of its caller. Where there is an Authorization header, it
// alone decides, and neither the certificate nor the user is looked at: a proxy that has a
// certificate of its own passes on the tokens of its callers.
type Credentials struct {
	Authorization []string            // values of the header
	Certificates  []*x509.Certificate // of a verified client, its own first

	// UID is the user whose process has connected to a Unix socket, if the kernel can tell. nil: the request came otherwise.
	UID func() (uid uint32, ok bool)
}

// ErrInvalid is the cause of every refusal of credentials. The text around it is for logs: it never
// holds the credentials themselves.
var ErrInvalid = errors.New("the credentials are not valid")

// invalid is an ErrInvalid with its reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Limits are what one principal may take of a gateway. The zero value of a field means no limit.
type Limits struct {
	Memory   float64 // share of the memory budget that the principal's bodies may hold, up to 1
	Requests float64 // a second
}
