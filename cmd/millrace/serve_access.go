package main

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/gateway/auth"
)

func (c *serveConfig) defineAccess(f *cli.Flags) {
	f.Main().Text(&c.TLSCert, "tls-cert", "", "`FILE` PEM certificate for HTTPS (default plain HTTP)")
	f.Main().Text(&c.TLSKey, "tls-key", "", "`FILE` PEM key of --tls-cert")
	f.Text(&c.ClientCA, "client-ca", "", "`FILE` PEM file of CAs for client certificates (default none)")
	a := &c.AccessConfig
	f.Main().Text(&a.Access, "access", "", "`FILE` YAML file of tokens and rights (default none: serve only on loopback)")
	f.Texts(&c.allow, "allow", []string{"read"}, "`RIGHT,...` rights without --access: read, report, warm", "read", "report", "warm")
	f.Texts(&a.Host, "host", nil, "`NAME` host name that requests to a loopback port may use; repeatable")
	proxies := cli.Kind[netip.Prefix]{Parse: parseProxy, Format: netip.Prefix.String}
	cli.List(f, &a.TrustedProxies, "trusted-proxies", nil, proxies, ",", func(s string) []string { return strings.Split(s, ",") }, "`ADDRESS` proxies whose Forwarded headers are trusted; repeatable")
	f.Text(&a.AuditLog, "audit-log", "", "`FILE` file for a log of writes and refused requests, or \"stderr\" (default none)")
	f.Main().Flag(&a.InsecureNoAuth, "insecure-no-auth", "without --access, serve data to every client")
	f.Flag(&a.InsecureAdmin, "insecure-admin", "without --access, serve the admin endpoints to every client")
	f.Flag(&a.InsecurePlainHTTP, "insecure-plain-http", "accept tokens without TLS, behind a proxy that terminates TLS")
}

// parseProxy parses an address or a network.
func parseProxy(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if at, atErr := netip.ParseAddr(text); atErr == nil {
		prefix, err = at.Prefix(at.BitLen())
	}
	if err != nil {
		return prefix, errors.New("must be an address or a network such as 10.0.0.0/8")
	}
	return prefix.Masked(), nil
}

// checkAccess parses the settings of access and records faults.
func (c *serveConfig) checkAccess(f *cli.Flags) {
	a := &c.AccessConfig
	a.Allow = nil
	for _, name := range c.allow {
		right, _ := auth.ParseRight(name) // the flag accepts only known words
		a.Allow = append(a.Allow, right)
	}
	for i, name := range a.Host {
		a.Host[i] = strings.ToLower(name)
	}
	if a.Access != "" && (!slices.Equal(c.allow, []string{"read"}) || a.InsecureNoAuth || a.InsecureAdmin) {
		f.Fault("--access excludes --allow, --insecure-no-auth and --insecure-admin: the access file sets all rights")
	}
	for _, address := range node.Addresses(c.Listen) {
		c.checkPort(f, "listen", address, a.Access != "" || a.InsecureNoAuth, "--insecure-no-auth")
	}
	if c.HealthListen != "" {
		c.checkPort(f, "health-listen", c.HealthListen, true, "")
	}
	if c.AdminListen == "" {
		return
	}
	c.checkPort(f, "admin-listen", c.AdminListen, a.Access != "" || a.InsecureAdmin, "--insecure-admin")
	if slices.Contains(node.Addresses(c.Listen), c.AdminListen) && !strings.HasSuffix(c.AdminListen, ":0") {
		f.Fault("--admin-listen %s must differ from --listen", c.AdminListen)
	}
}

// checkPort records a fault for an invalid address, and for one that other machines can reach
// without credentials.
func (c *serveConfig) checkPort(f *cli.Flags, name, address string, open bool, flag string) {
	if node.SocketOf(address) != "" {
		if !open && !node.Private(c.SocketMode) {
			f.Fault("socket-mode %04o lets other users connect to %s: add --access FILE or %s", c.SocketMode, address, flag)
		}
		return
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		f.Fault("%s %q: must be HOST:PORT or unix:PATH", f.NameOf(name), address)
	} else if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // asks no server
		f.Fault("%s %q: the port must be from 0 to 65535", f.NameOf(name), address)
	} else if !open && !node.Loopback(address) {
		f.Fault("%s %s: other machines can reach this address: add --access FILE or %s", f.NameOf(name), address, flag)
	}
}
