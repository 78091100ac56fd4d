package auth

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser builds a policy from an access file.
type parser struct {
	faults

	policy  *policy
	tokens  map[string]bool // names in tokens
	digests map[digest]int  // line of each sha256
	issuers map[string]bool // names in issuers; true if the issuer has groups
	limited map[string]int  // line of each name in limits
}

// parse returns the policy of an access file, or all its faults.
func parse(file string, text []byte) (*policy, error) {
	p := parser{
		faults: faults{file: file}, policy: newPolicy(),
		tokens: map[string]bool{}, digests: map[digest]int{}, issuers: map[string]bool{}, limited: map[string]int{},
	}
	if root, ok := p.document(text); ok {
		p.root(root)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return p.policy, nil
}

func (p *parser) root(n *yaml.Node) {
	m, ok := p.fields(n, "an access file", "tokens", "issuers", "grants", "limits")
	if !ok {
		return
	}
	if m.values["grants"] == nil {
		p.add(n, "an access file requires grants: without a grant no caller has rights")
	}
	p.each(m, "tokens", "a token", p.token, "name", "sha256", "expires")
	p.each(m, "issuers", "an issuer", p.issuer, "name", "issuer", "audience", "subject", "groups")
	p.each(m, "grants", "a grant", p.grant, "who", "datasets", "rights", "grants_sources")
	p.each(m, "limits", "a limit", p.limit, "who", "memory", "requests")
}

// ValidName reports whether a name is valid for a token or an issuer. The same rule applies to
// dataset names.
func ValidName(name string) bool {
	return len(name) <= 128 && name != "" && alphanumeric(rune(name[0])) && !strings.ContainsFunc(name, notName)
}

func notName(c rune) bool { return !alphanumeric(c) && !strings.ContainsRune("._-", c) }

// name returns the name of a token or an issuer.
func (p *parser) name(m fields) (string, bool) {
	name, ok := p.required(m, "name")
	switch {
	case !ok:
	case isToken(name): // not repeated, because logs may show it
		p.add(m.values["name"], "name is the text of a token, which is secret: use a name, and create a new token with millrace token")
	case !ValidName(name):
		p.add(m.values["name"], "name %.140q: must be a letter or digit, then letters, digits, dots, underscores and dashes, 128 characters at most", name)
	case name == anonymous:
		p.add(m.values["name"], "name %q: this name is reserved for callers without credentials", name)
	default:
		return name, true
	}
	return "", false
}

func (p *parser) token(m fields) {
	name, named := p.name(m)
	if named {
		p.tokens[name] = true
	}
	t := token{principal: Principal{Name: "token:" + name, who: []string{"token:" + name}}}
	if text, ok := p.required(m, "sha256"); ok {
		p.digest(m.values["sha256"], text, &t)
	}
	if text, ok := p.optional(m, "expires"); ok {
		var err error
		if t.expires, err = time.Parse(time.RFC3339, text); err != nil {
			p.add(m.values["expires"], "expires %.40q: must be a time with its zone, such as 2027-01-01T00:00:00Z", text)
		}
	}
	t.principal.token = &t.sum
	p.policy.known[t.sum] = len(p.policy.tokens)
	p.policy.tokens = append(p.policy.tokens, t)
}

// digest parses a token's SHA-256. The fault does not repeat the value, which may be the token
// itself.
func (p *parser) digest(at *yaml.Node, text string, t *token) {
	var sum digest
	n, err := hex.Decode(sum[:], []byte(text[:min(len(text), hex.EncodedLen(len(sum)))]))
	switch {
	case isToken(text):
		p.add(at, "sha256 is the text of a token, which is secret: create a new token with millrace token, and write its SHA-256 here")
	case err != nil || n != len(sum) || len(text) != hex.EncodedLen(n):
		p.add(at, "sha256 must have %d hexadecimal digits, got %d characters", hex.EncodedLen(len(sum)), len(text))
	case p.digests[sum] != 0:
		p.add(at, "sha256 is the same as in line %d: each token must have one name", p.digests[sum])
	default:
		p.digests[sum] = at.Line
		t.sum = sum
	}
}

func (p *parser) grant(m fields) {
	who := p.who(m, p.grantee)
	set := p.rights(m)
	if p.grantsSources(m) {
		if set&setOf(Read) == 0 {
			p.add(m.values["grants_sources"], "grants_sources applies to reading mixtures, but the rights do not include read")
		}
		set |= sources
	}
	datasets := p.datasets(m, set)
	for _, name := range who {
		permits := p.policy.permit(name)
		permits.datasets[""] |= set & setOf(Admin)
		for _, d := range datasets {
			if strings.Contains(d, "*") {
				permits.patterns = append(permits.patterns, pattern{d, set &^ setOf(Admin)})
			} else {
				permits.datasets[d] |= set
			}
		}
	}
}

func (p *parser) rights(m fields) (set rights) {
	if m.values["rights"] == nil {
		p.add(m.at, "%s requires rights", m.what)
	}
	for _, e := range p.elements(m, "rights") {
		name, ok := p.scalar(e, "a right")
		right, known := ParseRight(name)
		switch {
		case !ok:
		case !known:
			p.add(e, "right %.40q: must be %s", name, enumerate(rightNames()[Read:], "or"))
		default:
			set |= setOf(right)
		}
	}
	return set
}

func (p *parser) grantsSources(m fields) bool {
	text, ok := p.optional(m, "grants_sources")
	if ok && text != "true" && text != "false" {
		p.add(m.values["grants_sources"], "grants_sources %.40q: must be true or false", text)
	}
	return text == "true"
}

// datasets returns the names and patterns of datasets to which a set of rights applies.
func (p *parser) datasets(m fields, set rights) []string {
	n := m.values["datasets"]
	switch admin := set & setOf(Admin); {
	case n == nil && set != admin:
		p.add(m.at, "%s with %s, %s or %s requires datasets", m.what, Read, Report, Warm)
	case n != nil && set == admin && admin != 0:
		p.add(n, "datasets apply only to read, report and warm: admin is a right on the gateway")
	}
	var all []string
	for _, e := range p.elements(m, "datasets") {
		text, ok := p.scalar(e, "a dataset")
		switch {
		case !ok:
		case strings.ContainsFunc(text, func(c rune) bool { return c != '*' && notName(c) }):
			p.add(e, "dataset %.140q: must be letters, digits, dots, underscores, dashes, and * for any characters", text)
		case set&sources != 0 && strings.Contains(text, "*"):
			p.add(e, "dataset %.140q: grants_sources requires whole names, since a pattern also matches mixtures that clients define", text)
		default:
			all = append(all, text)
		}
	}
	return all
}

func (p *parser) limit(m fields) {
	who := p.who(m, p.limitee)
	var l Limits
	if m.values["memory"] == nil && m.values["requests"] == nil {
		p.add(m.at, "a limit requires memory or requests")
	}
	if text, ok := p.optional(m, "memory"); ok {
		if l.Memory, ok = positive(text); !ok || l.Memory > 1 {
			p.add(m.values["memory"], "memory %.40q: must be a share of the budget, above 0 and at most 1", text)
		}
	}
	if text, ok := p.optional(m, "requests"); ok {
		number, unit := strings.CutSuffix(text, "/s")
		if l.Requests, ok = positive(number); !ok || !unit {
			p.add(m.values["requests"], "requests %.40q: must be a number per second, such as 100/s", text)
		}
	}
	for _, name := range who {
		p.policy.limitsFor[name] = len(p.policy.limits)
	}
	p.policy.limits = append(p.policy.limits, l)
}

func positive(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v > 0 && !math.IsInf(v, 0)
}
