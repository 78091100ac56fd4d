package auth

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// byCertificate returns the principal of a certificate that TLS has verified. Its name is the
// certificate's first name that the access file contains, or else its first name. byCertificate
// checks the expiry again, since a connection may stay open for days after the verification.
func (p *policy) byCertificate(cert *x509.Certificate, now time.Time) (Principal, error) {
	if now.After(cert.NotAfter) {
		return Principal{}, invalid("a client certificate that expired at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	who := Principal{until: cert.NotAfter}
	for _, name := range sans(cert) {
		who.who = append(who.who, "certificate:"+name)
	}
	if len(who.who) == 0 {
		return Principal{}, invalid("a client certificate without a DNS name, URI, e-mail or IP address as its subject alternative name")
	}
	who.Name = who.who[max(0, slices.IndexFunc(who.who, p.means))]
	return who, nil
}

// sans returns the names of a certificate. It omits a name whose form belongs to another kind of
// name: a CA that verifies DNS names may sign one that looks like an e-mail address.
func sans(cert *x509.Certificate) []string {
	var all []string
	add := func(name string, is kindOfSAN) {
		if validSubject(name) && kindOf(name) == is {
			all = append(all, canonicalSAN(name))
		}
	}
	for _, name := range cert.DNSNames {
		add(name, dnsName)
	}
	for _, u := range cert.URIs {
		add((*url.URL).String(u), uri)
	}
	for _, name := range cert.EmailAddresses {
		add(name, email)
	}
	for _, ip := range cert.IPAddresses {
		add(ip.String(), ipAddress)
	}
	return all
}

type kindOfSAN int

const (
	dnsName kindOfSAN = iota
	uri
	email
	ipAddress
)

// kindOf returns the kind of a name by its form.
func kindOf(name string) kindOfSAN {
	_, err := netip.ParseAddr(name)
	switch {
	case err == nil:
		return ipAddress
	case strings.Contains(name, ":"):
		return uri
	case strings.Contains(name, "@"):
		return email
	}
	return dnsName
}

// canonicalSAN returns the canonical form of a name. DNS names are case-insensitive; URIs and
// e-mail addresses are not.
func canonicalSAN(name string) string {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.String()
	}
	if kindOf(name) == dnsName {
		return strings.ToLower(name)
	}
	return name
}
