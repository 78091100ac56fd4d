package auth

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/internal/watch"
)

// Config says what a Guard decides by.
type Config struct {
	File string // the access file

	// Changed is told of each change of the file: nil where the new content is in use now, else why
	// the old one stays.
	Changed func(error)

	// Keys is told of each fetch of an issuer's keys that fails, and with nil of the first one that
	// succeeds.
	Keys func(issuer string, err error)

	HTTP http.RoundTripper // asks issuers; nil: as the environment's proxy variables say
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

// Guard knows callers and their rights. It is safe for concurrent use.
type Guard struct {
	cfg    Config
	policy atomic.Pointer[policy]

	reading sync.Mutex    // guards seen and fault, and lets one goroutine read the file at a time
	seen    watch.Content // of the file, as it was last read
	fault   error         // of that content

	rings map[string]*keyring // by the URL of the issuer; the policy's issuers have them too

	reloads, faults atomic.Int64
	loaded          atomic.Int64 // nanoseconds since 1970: when the policy came into use
	fileOK          atomic.Bool
}

// Everybody is the guard of a gateway without an access file: it asks for no credentials, and each
// caller has these rights on all datasets.
func Everybody(given ...Right) *Guard {
	p, all := newPolicy(), pattern{text: "*"}
	permits := p.permit(anonymous)
	for _, right := range given {
		all.rights |= setOf(right)
		permits.admin = permits.admin || right == Admin
	}
	permits.patterns = []pattern{all}
	g := &Guard{cfg: Config{}.withDefaults()}
	g.fileOK.Store(true)
	g.policy.Store(p)
	return g
}

// Open reads an access file. An error lists all faults of the file, each with its line. Nothing
// runs in the background before Run.
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

// Authenticate says who shows the credentials. Without any the caller is anonymous. An error is an
// ErrInvalid.
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
		return Principal{}, invalid("neither a token, mr_ and 43 characters, nor a JWT")
	case len(shown.Certificates) > 0:
		return p.byCertificate(shown.Certificates[0], g.cfg.Now())
	case shown.UID != nil:
		return p.byUID(shown.UID()), nil
	}
	return Anonymous(), nil
}

// May reports whether a principal has a right on a dataset, whether or not there is such a dataset.
// Admin is a right on the gateway: its dataset is "". A principal whose credentials have ended, or
// have been taken out of the access file, has no rights any more.
func (g *Guard) May(who Principal, right Right, dataset string) bool {
	p := g.policy.Load()
	switch {
	case right == None:
		return true
	case !p.stands(&who, g.cfg.Now):
		return false
	case right == Admin:
		return p.isAdmin(who)
	}
	return p.may(who, setOf(right), dataset)
}

// GrantsSources reports whether the grant by which a principal may read a mixture lets it read the
// mixture's sources as parts of the mixture.
func (g *Guard) GrantsSources(p Principal, mixture string) bool {
	return g.policy.Load().may(p, setOf(Read)|sources, mixture)
}

// Limits returns the limits of a principal.
func (g *Guard) Limits(p Principal) Limits { return g.policy.Load().limit(p) }

// Version is another number once the rules have changed.
func (g *Guard) Version() int64 { return g.loaded.Load() }

// Stats says how the access file is.
type Stats struct {
	Tokens  int       // that the policy in use knows, expired ones too
	Loaded  time.Time // when that policy came into use
	FileOK  bool      // whether the file is in use as it is now; else an older content is in use
	Reloads int64     // changes of the file that came into use
	Faults  int64     // changes of the file that were refused
	Issuers []IssuerStats
}

// IssuerStats says how the keys of an issuer are.
type IssuerStats struct {
	Name     string
	Keys     int       // that are in use now: none before the first fetch, and a day after the last
	Fetched  time.Time // when they were last fetched; zero: never
	Failures int64     // fetches that failed
}

// Stats returns counters for metrics.
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
