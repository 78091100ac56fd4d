package auth

import "time"

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
	admin    bool
	datasets map[string]rights // datasets with exact names
	patterns []pattern
}

// pattern is a grant for the datasets whose names match.
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
	for i := range p.patterns {
		if p.patterns[i].rights&set == set && matches(p.patterns[i].text, dataset) {
			return true
		}
	}
	return false
}

// matches reports whether a name matches a pattern, in which "*" matches any characters or none.
func matches(pattern, name string) bool {
	star, from := -1, 0 // position of the last star, and of the name after the characters that it matches
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0: // the star matches one more character
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
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

func (p *policy) isAdmin(who Principal) bool {
	for _, name := range who.who {
		if permits := p.permits[name]; permits != nil && permits.admin {
			return true
		}
	}
	permits := p.permits[anonymous]
	return permits != nil && permits.admin
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
