package auth

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxName bounds a caller's name from an issuer or certificate, in bytes.
const maxName = 256

// who returns the names in "who", in the form that check returns. check adds a fault for an invalid
// name.
func (p *parser) who(m fields, check func(*yaml.Node, string) (string, bool)) []string {
	if m.values["who"] == nil {
		p.add(m.at, "%s requires who", m.what)
	}
	var all []string
	for _, e := range p.elements(m, "who") {
		text, ok := p.scalar(e, "a name in who")
		if !ok {
			continue
		}
		if name, ok := check(e, text); ok {
			all = append(all, name)
		}
	}
	return all
}

// grantee checks a name in the "who" of a grant.
func (p *parser) grantee(at *yaml.Node, text string) (string, bool) {
	if text == everyPrincipal {
		p.add(at, `who %q is allowed only in limits: in a grant, "anonymous" means every caller`, text)
		return "", false
	}
	return p.principal(at, text)
}

// limitee checks a name in the "who" of a limit. Only the first limit of a name applies.
func (p *parser) limitee(at *yaml.Node, text string) (string, bool) {
	name := text
	if text != everyPrincipal {
		var ok bool
		if name, ok = p.principal(at, text); !ok {
			return "", false
		}
	}
	for _, earlier := range []string{name, everyPrincipal} {
		if line := p.limited[earlier]; line != 0 {
			p.add(at, "who %.300q already has the limits of line %d, which comes first: remove one of them", text, line)
			return "", false
		}
	}
	p.limited[name] = at.Line
	return name, true
}

// principal returns the canonical name of a principal.
func (p *parser) principal(at *yaml.Node, text string) (string, bool) {
	if text == anonymous {
		return text, true
	}
	kind, name, _ := strings.Cut(text, ":")
	fault := ""
	switch kind {
	case "token":
		if !p.tokens[name] {
			fault = "tokens has no token with this name"
		}
	case "jwt", "group":
		fault = p.issued(kind, name)
	case "certificate":
		fault = badName(name)
		text = kind + ":" + canonicalSAN(name)
	case "uid":
		if n, err := strconv.ParseUint(name, 10, 32); err != nil || n == math.MaxUint32 || name != strconv.FormatUint(n, 10) {
			fault = "must be a user ID, as printed by id -u"
		}
	default:
		fault = "must be token:NAME, jwt:ISSUER#NAME, group:ISSUER#NAME, certificate:NAME, uid:NUMBER or anonymous"
	}
	if fault != "" {
		p.add(at, "who %.300q: %s", text, fault)
		return "", false
	}
	return text, true
}

// byUID returns the principal of a user without other credentials. Users that the access file does
// not contain are anonymous, and so are those that the kernel cannot identify.
func (p *policy) byUID(uid uint32, ok bool) Principal {
	name := "uid:" + strconv.FormatUint(uint64(uid), 10)
	if !ok || !p.means(name) {
		return Anonymous()
	}
	return Principal{Name: name, who: []string{name}}
}

// issued returns the fault of ISSUER#NAME, or "" if it is valid.
func (p *parser) issued(kind, text string) string {
	issuer, name, ok := strings.Cut(text, "#")
	groups, known := p.issuers[issuer]
	switch {
	case !ok:
		return "want " + kind + ":ISSUER#NAME"
	case !known:
		return "issuers has no issuer with this name"
	case kind == "group" && !groups:
		return "the issuer has no groups: set groups: to the name of the claim that contains them"
	}
	return badName(name)
}

// badName returns the fault of a subject, group or certificate name in an access file, or "" if it
// is valid.
func badName(name string) string {
	switch {
	case strings.Contains(name, "*"):
		return "a name must be complete, without *"
	case !validSubject(name):
		return "a name must have 1 to 256 bytes of UTF-8, without control characters"
	}
	return ""
}

// validSubject reports whether a name from outside is safe as a principal's name, which appears in
// logs.
func validSubject(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}
