package auth

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/watch"
)

// Config configures a Guard.
type Config struct {
	File string // path of the access file

	// Changed is called after each change of the file. Its argument is nil if the new content
	// is in use, otherwise the reason why the previous content stays in use.
	Changed func(error)

	// Keys is called after each failed fetch of an issuer's keys, and with nil after the first
	// success.
	Keys func(issuer string, err error)

	HTTP http.RoundTripper // transport for issuers; nil: a default transport that uses the environment's proxy
	Now  func() time.Time  // nil: time.Now
}

func (cfg Config) withDefaults() Config {
	if cfg.Changed == nil {
		cfg.Changed = func(error) {}
	}
	if cfg.Keys == nil {
		cfg.Keys = func(string, error) {}
	}
	if cfg.HTTP == nil {
		cfg.HTTP = newTransport()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return cfg
}

// Guard authenticates callers and checks rights. It is safe for concurrent use.
type Guard struct {
	cfg    Config
	policy atomic.Pointer[policy]

	reading sync.Mutex    // guards seen and fault, and serializes reads of the file
	seen    watch.Content // content of the file at the last read
	fault   error         // error of that content

	rings map[string]*keyring // keyrings by issuer URL, shared with the policy's issuers

	reloads, faults atomic.Int64
	loaded          atomic.Int64 // when the policy was loaded, in nanoseconds since 1970
	fileOK          atomic.Bool
}

// Everybody returns the guard of a gateway without an access file. It requires no credentials, and
// every caller has the given rights on all datasets.
func Everybody(given ...Right) *Guard {
	p, all := newPolicy(), pattern{text: "*"}
	permits := p.permit(anonymous)
	for _, right := range given {
		all.rights |= setOf(right)
	}
	permits.patterns = []pattern{all}
	g := &Guard{cfg: Config{}.withDefaults()}
	g.fileOK.Store(true)
	g.policy.Store(p)
	return g
}

// Open loads an access file. The error lists all faults of the file with their lines. Nothing runs
// in the background before Run.
func Open(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg.withDefaults()}
	content := g.file().Read()
	p, err := g.parsed(content)
	if err != nil {
		return nil, err
	}
	g.seen = content
	g.use(p)
	return g, nil
}

// Authenticate returns the principal of the credentials, or an anonymous one without credentials.
// Errors wrap ErrInvalid.
func (g *Guard) Authenticate(shown Credentials) (Principal, error) {
	p := g.policy.Load()
	switch {
	case g.cfg.File == "":
		return Anonymous(), nil
	case len(shown.Authorization) > 0:
		text, err := bearer(shown.Authorization)
		switch {
		case err != nil:
			return Principal{}, err
		case isToken(text):
			return p.byToken(text, g.cfg.Now())
		case isJWT(text):
			return p.byJWT(text, g.cfg.Now())
		}
		return Principal{}, invalid("the credentials are neither a token (mr_ and 43 characters) nor a JWT")
	case len(shown.Certificates) > 0:
		return p.byCertificate(shown.Certificates[0], g.cfg.Now())
	case shown.UID != nil:
		return p.byUID(shown.UID()), nil
	}
	return Anonymous(), nil
}

// May reports whether a principal has a right on a dataset, which need not exist. Admin is a right
// on the gateway, with dataset "". A principal whose credentials have expired, or are no longer in
// the access file, has no rights.
func (g *Guard) May(who Principal, right Right, dataset string) bool {
	p := g.policy.Load()
	switch {
	case right == None:
		return true
	case !p.stands(&who, g.cfg.Now):
		return false
	case right == Admin:
		dataset = ""
	}
	return p.may(who, setOf(right), dataset)
}

// GrantsSources reports whether the grant for a mixture also lets the principal read the mixture's
// sources as parts of it.
func (g *Guard) GrantsSources(p Principal, mixture string) bool {
	return g.policy.Load().may(p, setOf(Read)|sources, mixture)
}

// Limits returns the limits of a principal.
func (g *Guard) Limits(p Principal) Limits { return g.policy.Load().limit(p) }

// Version returns a number that changes when the policy changes.
func (g *Guard) Version() int64 { return g.loaded.Load() }

// Stats is the state of the access file.
type Stats struct {
	Tokens  int       // tokens in the current policy, including expired ones
	Loaded  time.Time // when the current policy was loaded
	FileOK  bool      // the current content of the file is in use; otherwise an earlier one is
	Reloads int64     // accepted changes of the file
	Faults  int64     // rejected changes of the file
	Issuers []IssuerStats
}

// IssuerStats is the state of an issuer's keys.
type IssuerStats struct {
	Name     string
	Keys     int       // usable keys: none before the first fetch, or a day after the last successful one
	Fetched  time.Time // last successful fetch; zero: never
	Failures int64     // failed fetches
}

// Stats returns the state of the access file for metrics.
func (g *Guard) Stats() Stats {
	p := g.policy.Load()
	s := Stats{
		Tokens: len(p.tokens), Loaded: time.Unix(0, g.loaded.Load()), FileOK: g.fileOK.Load(),
		Reloads: g.reloads.Load(), Faults: g.faults.Load(),
	}
	for i := range p.issuers {
		s.Issuers = append(s.Issuers, p.issuers[i].stats(g.cfg.Now()))
	}
	return s
}
