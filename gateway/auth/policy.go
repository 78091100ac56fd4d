package auth

import "time"

// policy is what one version of an access file says. Nothing changes it but proofs.
type policy struct {
	tokens  []token
	known   map[digest]int // where each token lies in tokens
	issuers []issuer
	permits map[string]*permits // of each name in a grant

	proofs proofs

	limits    []Limits       // the entries, in order
	limitsFor map[string]int // of each name in a limit: the first entry with it
}

func newPolicy() *policy {
	return &policy{known: map[digest]int{}, permits: map[string]*permits{}, limitsFor: map[string]int{}, proofs: proofs{of: map[digest]proof{}}}
}

// rights is a set of rights.
type rights uint8

// sources is set beside Read where a mixture's sources are granted as parts of the mixture.
const sources rights = 1 << 7

func setOf(right Right) rights { return 1 << right }

// permits are all that the grants give to one name.
type permits struct {
	admin    bool
	datasets map[string]rights // named in full
	patterns []pattern
}

// pattern stands for the datasets whose names it matches.
type pattern struct {
	text   string
	rights rights
}

// means reports whether a grant or a limit names a principal or a group.
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

// has reports whether the permits hold all rights of a set on a dataset.
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

// matches reports whether a name fits a pattern, whose only special character is "*": any
// characters, or none.
func matches(pattern, name string) bool {
	star, from := -1, 0 // the last star, and the part of the name that follows what the star takes
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0: // the star takes one character more
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

// stands reports whether the credentials by which a principal was known are still good: a long
// answer may outlive them.
func (p *policy) stands(who *Principal, now func() time.Time) bool {
	if who.token != nil {
		i, ok := p.known[*who.token]
		return ok && p.tokens[i].principal.Name == who.Name && p.tokens[i].stands(now())
	}
	return who.until.IsZero() || !now().After(who.until)
}

// may reports whether a principal has all rights of a set. What everybody may do without
// credentials, a principal may do with them.
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

// limit returns the first entry that means the principal.
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

// everyPrincipal means each principal by itself, in limits.
const everyPrincipal = "*"
