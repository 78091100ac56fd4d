package auth

import (
	"path"
	"slices"
	"time"
)

// policy is the content of one version of an access file. It is immutable, except for the cache
// proofs.
type policy struct {
	tokens  []token
	known   map[digest]int // index of each token in tokens
	issuers []issuer
	permits map[string]*permits // permits by a name in grants

	proofs proofs

	limits    []Limits       // entries in order of the file
	limitsFor map[string]int // index of the first entry with a name
}

func newPolicy() *policy {
	return &policy{known: map[digest]int{}, permits: map[string]*permits{}, limitsFor: map[string]int{}, proofs: proofs{of: map[digest]proof{}}}
}

// rights is a set of rights.
type rights uint8

// sources is set in addition to Read if a grant includes the sources of a mixture as parts of it.
const sources rights = 1 << 7

func setOf(right Right) rights { return 1 << right }

// permits are all grants of one name.
type permits struct {
	datasets map[string]rights // datasets with exact names; "": the gateway, for the right Admin
	patterns []pattern
}

// pattern is a grant for the datasets whose names match. In its text, * matches any characters or
// none. Neither names nor patterns contain other characters that are special to path.Match.
type pattern struct {
	text   string
	rights rights
}

// means reports whether a grant or limit contains the name of a principal or group.
func (p *policy) means(who string) bool {
	_, limited := p.limitsFor[who]
	return limited || p.permits[who] != nil
}

func (p *policy) permit(who string) *permits {
	if p.permits[who] == nil {
		p.permits[who] = &permits{datasets: map[string]rights{}}
	}
	return p.permits[who]
}

// has reports whether the permits include all rights of a set on a dataset.
func (p *permits) has(set rights, dataset string) bool {
	if p == nil {
		return false
	}
	if p.datasets[dataset]&set == set {
		return true
	}
	return slices.ContainsFunc(p.patterns, func(granted pattern) bool {
		fits, err := path.Match(granted.text, dataset)
		return granted.rights&set == set && fits && err == nil
	})
}

// stands reports whether a principal's credentials are still valid, since a long response may
// outlive them.
func (p *policy) stands(who *Principal, now func() time.Time) bool {
	if who.token != nil {
		i, ok := p.known[*who.token]
		return ok && p.tokens[i].principal.Name == who.Name && p.tokens[i].stands(now())
	}
	return who.until.IsZero() || !now().After(who.until)
}

// may reports whether a principal has all rights of a set. Every principal also has the rights of
// anonymous callers.
func (p *policy) may(who Principal, set rights, dataset string) bool {
	for _, name := range who.who {
		if p.permits[name].has(set, dataset) {
			return true
		}
	}
	return p.permits[anonymous].has(set, dataset)
}

// limit returns the first entry that applies to the principal.
func (p *policy) limit(who Principal) Limits {
	first, ok := p.limitsFor[everyPrincipal]
	for _, name := range who.who {
		if i, named := p.limitsFor[name]; named && (!ok || i < first) {
			first, ok = i, true
		}
	}
	if !ok {
		return Limits{}
	}
	return p.limits[first]
}

// everyPrincipal in a limit applies to each principal separately.
const everyPrincipal = "*"
