package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/internal/cli"
)

// clusterFlags make a gateway a member of a cluster. Without a name nothing of it is used.
type clusterFlags struct {
	name         string
	join         string
	listen       string
	advertise    string
	cert         string
	key          string
	ca           string
	allow        []string
	insecure     bool
	sharedCert   bool
	gossipListen string
	gossipKey    string
	member       string
	ordinal      ordinal

	bound net.Listener // where the peer port is bound already; else nil
	where cluster.Join // join, read
}

// ordinal is a gateway's number among so many.
type ordinal struct{ number, of int }

func (o ordinal) String() string {
	if o.of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", o.number, o.of)
}

func parseOrdinal(s string) (ordinal, error) {
	if s == "" {
		return ordinal{}, nil
	}
	number, of, found := strings.Cut(s, "/")
	i, err := strconv.ParseUint(number, 10, 16)
	p, err2 := strconv.ParseUint(of, 10, 16)
	if !found || err != nil || err2 != nil || i >= p {
		return ordinal{}, errors.New("want I/P, such as 0/8 to 7/8")
	}
	return ordinal{int(i), int(p)}, nil
}

func (c *clusterFlags) define(f *cli.Flags) {
	f.Text(&c.name, "cluster", "", "be one cache with the other gateways of the cluster `NAME`: wants --join and --peer-listen")
	f.Text(&c.join, "join", "", "find them `WHERE`: static:HOST,HOST:PORT or dns:NAME:PORT or gossip:SEED,SEED")
	f.Text(&c.listen, "peer-listen", "", fmt.Sprintf("`ADDRESS` of the port for other gateways, such as 0.0.0.0:%d", cluster.PeerPort))
	f.Text(&c.advertise, "peer-advertise", "", "`ADDRESS` at which they reach it (default that of --peer-listen, or this machine's only one)")
	f.Text(&c.cert, "peer-cert", "", "PEM `FILE` with this gateway's certificate, for both ends of a connection")
	f.Text(&c.key, "peer-key", "", "PEM `FILE` with its key")
	f.Text(&c.ca, "peer-ca", "", "PEM `FILE` with the authority whose certificates gateways have")
	f.List(&c.allow, "peer-allow", "`NAME` that a gateway's certificate must have; may be repeated (default any that --peer-ca has signed)")
	f.Flag(&c.sharedCert, "peer-shared-cert", "gateways share a certificate: its names need not have the --member name of who shows it")
	f.Flag(&c.insecure, "peer-insecure", "no certificates: whoever reaches the peer port may read every dataset; on loopback only")
	f.Text(&c.gossipListen, "gossip-listen", "", fmt.Sprintf("`ADDRESS` of the gossip, TCP and UDP (default the host of --peer-listen, port %d)", cluster.GossipPort))
	f.Text(&c.gossipKey, "gossip-key-file", "", "`FILE` with the key of the gossip: 16, 24 or 32 bytes, plain, in hexadecimal or in base64")
	f.Text(&c.member, "member", "", "`NAME` of this gateway, the same after a restart (default the host's name)")
	cli.Var(f, &c.ordinal, "ordinal", "i/p", parseOrdinal, ordinal.String,
		"`I/P`: this gateway's number, from 0, among P: it then owns what rank I of P reads with split=locality")
}

// clusterNames are the flags that mean nothing without --cluster.
func clusterNames() []string {
	return []string{
		"join", "peer-listen", "peer-advertise", "peer-cert", "peer-key", "peer-ca", "peer-allow", "peer-shared-cert", "peer-insecure",
		"gossip-listen", "gossip-key-file", "member", "ordinal",
	}
}

func (c *clusterFlags) validate(f *cli.Flags) {
	if c.name == "" {
		for _, name := range clusterNames() {
			if fl := f.Set.Lookup(name); fl.Value.String() != fl.DefValue {
				f.Fault("--%s: want --cluster NAME with it", name)
			}
		}
		return
	}
	if err := cluster.CheckName(c.name); err != nil {
		f.Fault("--cluster: %w", err)
	}
	c.validateMember(f)
	c.validateJoin(f)
	c.validatePeerPort(f)
	c.validateCertificates(f)
	c.validateGossip(f)
}

func (c *clusterFlags) validateMember(f *cli.Flags) {
	if c.member == "" {
		host, err := os.Hostname()
		if err != nil {
			f.Fault("--member: this host has no name (%w): give one", err)
			return
		}
		c.member = host
	}
	if err := cluster.CheckName(c.member); err != nil {
		f.Fault("--member: %w", err)
	}
}

func (c *clusterFlags) validateJoin(f *cli.Flags) {
	if c.join == "" {
		f.Fault("--cluster %s: want --join WHERE with it", c.name)
		return
	}
	var err error
	if c.where, err = cluster.ParseJoin(c.join); err != nil {
		f.Fault("--join %q: %w", c.join, err)
	}
}

func (c *clusterFlags) validatePeerPort(f *cli.Flags) {
	if c.listen == "" {
		f.Fault("--cluster %s: want --peer-listen ADDRESS with it", c.name)
		return
	}
	host, port, err := net.SplitHostPort(c.listen)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
		f.Fault("--peer-listen %q: want HOST:PORT, with a port that others can be told", c.listen)
		return
	}
	if c.insecure && !loopback(host) {
		f.Fault("--peer-insecure: others can reach --peer-listen %s; use 127.0.0.1, or certificates", c.listen)
	}
	if c.advertise == "" {
		if c.advertise, err = advertised(host, port); err != nil {
			f.Fault("--peer-advertise: %w", err)
			return
		}
	}
	if err := cluster.CheckAddress(c.advertise); err != nil {
		f.Fault("--peer-advertise: %w", err)
		return
	}
	if own, _, _ := net.SplitHostPort(c.advertise); loopback(own) {
		for _, t := range c.where.Targets {
			if other, _, _ := net.SplitHostPort(t); net.ParseIP(other) != nil && !loopback(other) {
				f.Fault("--peer-advertise %s: only this machine can reach it, and --join names %s", c.advertise, t)
				return
			}
		}
	}
}

// advertised is the address at which others reach a port that listens on host: that, unless it means every address.
func advertised(host, port string) (string, error) {
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return net.JoinHostPort(host, port), nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("give the ADDRESS at which others reach this gateway: %w", err)
	}
	var four, six []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			four = append(four, n.IP.String())
		default:
			six = append(six, n.IP.String())
		}
	}
	if len(four) == 0 {
		four = six
	}
	if len(four) != 1 {
		return "", fmt.Errorf("give the ADDRESS at which others reach this gateway: this machine has %d that could be it (%s)", len(four), strings.Join(four, ", "))
	}
	return net.JoinHostPort(four[0], port), nil
}

func (c *clusterFlags) validateCertificates(f *cli.Flags) {
	files := 0
	for _, name := range []string{c.cert, c.key, c.ca} {
		if name != "" {
			files++
		}
	}
	switch {
	case c.insecure && (files+len(c.allow) > 0 || c.sharedCert):
		f.Fault("--peer-insecure: means no certificates, but some are named")
	case !c.insecure && files < 3:
		f.Fault("--cluster %s: want --peer-cert, --peer-key and --peer-ca, or --peer-insecure on loopback", c.name)
	}
}

func (c *clusterFlags) validateGossip(f *cli.Flags) {
	if c.where.Scheme != cluster.SchemeGossip {
		if c.gossipListen != "" || c.gossipKey != "" {
			f.Fault("--gossip-listen and --gossip-key-file: want --join gossip:SEED,SEED with them")
		}
		return
	}
	if c.gossipListen == "" {
		host, _, _ := net.SplitHostPort(c.listen)
		c.gossipListen = net.JoinHostPort(host, strconv.Itoa(cluster.GossipPort))
	}
	host, _, err := net.SplitHostPort(c.gossipListen)
	switch {
	case err != nil:
		f.Fault("--gossip-listen %q: want HOST:PORT", c.gossipListen)
	case c.gossipKey == "" && !loopback(host):
		f.Fault("--gossip-listen %s: others can reach it; want --gossip-key-file FILE with it", c.gossipListen)
	}
	if c.gossipKey != "" {
		if _, err := cluster.ReadKey(c.gossipKey); err != nil {
			f.Fault("--gossip-key-file: %w", err)
		}
	}
}
