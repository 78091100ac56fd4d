package auth

import (
	"net/url"

	"go.yaml.in/yaml/v3"
)

// issuer is a trusted issuer of JWTs.
type issuer struct {
	name     string
	url      string // exact value of the claim iss
	audience string // required value in the claim aud
	subject  string // claim with the caller's name
	groups   string // claim with the caller's groups; empty: none

	keys *keyring
}

func (p *parser) issuer(m fields) {
	is := issuer{subject: "sub"}
	var ok bool
	is.name, ok = p.name(m)
	if _, twice := p.issuers[is.name]; ok && twice {
		p.add(m.values["name"], "name %q is already used by another issuer", is.name)
	}
	if is.url, ok = p.required(m, "issuer"); ok {
		p.issuerURL(m.values["issuer"], is.url)
	}
	is.audience, _ = p.required(m, "audience")
	if subject, ok := p.optional(m, "subject"); ok {
		is.subject = subject
	}
	is.groups, _ = p.optional(m, "groups")
	if is.name != "" {
		p.issuers[is.name] = m.values["groups"] != nil
	}
	p.policy.issuers = append(p.policy.issuers, is)
}

func (p *parser) issuerURL(at *yaml.Node, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The fault does not repeat the URL, which may contain a password.
		p.add(at, "issuer must be an https URL without user, query and fragment")
		return
	}
	for _, other := range p.policy.issuers {
		if other.url == text {
			p.add(at, "issuer is the same as in %s: each issuer must have its own URL", other.name)
		}
	}
}
