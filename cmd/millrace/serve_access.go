package main

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/gateway/auth"
)

func (c *serveConfig) defineAccess(f *cli.Flags) {
	a := &c.AccessConfig
	f.Text(&a.Access, "access", "", "YAML `FILE` of callers and their rights, read again when it changes (default none: only this machine is served)")
	f.Words(&c.allow, "allow", []string{"read"}, "`RIGHT,...` of everybody where there is no --access file, some of read, report and warm", "read", "report", "warm")
	f.List(&a.Host, "host", "`NAME` of this machine that requests on loopback may ask for, beside localhost; may be repeated")
	f.List(&c.trustedProxies, "trusted-proxies", "`ADDRESS[/BITS]` of a proxy whose word for a caller's address is taken; may be repeated")
	f.Text(&a.AuditLog, "audit-log", "", "`FILE` that records each write and each refusal, or stderr (default none)")
	f.Flag(&a.InsecureNoAuth, "insecure-no-auth", "without --access, serve everybody who reaches the data port")
	f.Flag(&a.InsecureAdmin, "insecure-admin", "without --access, show statistics and profiles to everybody who reaches them")
	f.Flag(&a.InsecurePlainHTTP, "insecure-plain-http", "take tokens without TLS from other machines: a proxy in front ends TLS")
}

// checkAccess reads what is said of callers, and notes faults.
func (c *serveConfig) checkAccess(f *cli.Flags) {
	a := &c.AccessConfig
	a.Allow, a.TrustedProxies = nil, nil
	for _, name := range c.allow {
		right, _ := auth.ParseRight(name) // the flag admits known words only
		a.Allow = append(a.Allow, right)
	}
	for i, name := range a.Host {
		a.Host[i] = strings.ToLower(name)
	}
	for _, text := range c.trustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if at, atErr := netip.ParseAddr(text); atErr == nil {
			prefix, err = at.Prefix(at.BitLen())
		}
		if err != nil {
			f.Fault("--trusted-proxies %q: want an address or a network such as 10.0.0.0/8", text)
			continue
		}
		a.TrustedProxies = append(a.TrustedProxies, prefix.Masked())
	}
	if a.Access != "" && (!slices.Equal(c.allow, []string{"read"}) || a.InsecureNoAuth || a.InsecureAdmin) {
		f.Fault("--access: the file says who may do what; --allow, --insecure-no-auth and --insecure-admin are for a gateway without one")
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
		f.Fault("--admin-listen %s: the same address as --listen", c.AdminListen)
	}
}

// checkPort notes an address that is none, or that others can reach although nobody is asked for credentials there.
func (c *serveConfig) checkPort(f *cli.Flags, name, address string, open bool, flag string) {
	if node.SocketOf(address) != "" {
		if !open && !node.Private(c.SocketMode) {
			f.Fault("--socket-mode %04o: other users may connect to %s: add --access FILE, which says who may do what, or %s", c.SocketMode, address, flag)
		}
		return
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		f.Fault("--%s %q: want HOST:PORT or unix:PATH", name, address)
	} else if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // asks no server
		f.Fault("--%s %q: want a port from 0 to 65535", name, address)
	} else if !open && !node.Loopback(address) {
		f.Fault("--%s %s: other machines can reach this address: add --access FILE, which says who may do what, or %s", name, address, flag)
	}
}
