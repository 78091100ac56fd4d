package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/node"
)

func (x *serveConfig) defineCluster(f *cli.Flags) {
	c := &x.Cluster
	f.Text(&c.Name, "cluster", "", "be one cache with the other gateways of the cluster `NAME`: wants --join and --peer-listen")
	f.Text(&x.join, "join", "", "`WHERE` to find the other gateways: static:HOST,HOST:PORT or dns:NAME:PORT or gossip:SEED,SEED")
	f.Text(&c.Listen, "peer-listen", "", fmt.Sprintf("`ADDRESS` of the port for other gateways, such as 0.0.0.0:%d", cluster.PeerPort))
	f.Text(&c.Advertise, "peer-advertise", "", "`ADDRESS` at which the other gateways reach that port (default that of --peer-listen, or this machine's only one)")
	f.Text(&c.Cert, "peer-cert", "", "PEM `FILE` with this gateway's certificate, for both ends of a connection")
	f.Text(&c.Key, "peer-key", "", "PEM `FILE` with the key of --peer-cert")
	f.Text(&c.CA, "peer-ca", "", "PEM `FILE` with the authority that has signed the gateways' certificates")
	f.List(&c.Allow, "peer-allow", "`NAME` that a gateway's certificate must have; may be repeated (default any that --peer-ca has signed)")
	f.Flag(&c.SharedCert, "peer-shared-cert", "gateways share a certificate: its names need not have the --member name of the gateway that shows it")
	f.Flag(&c.Insecure, "peer-insecure", "no certificates: every process that reaches the peer port may read every dataset; on loopback only")
	f.Text(&c.GossipListen, "gossip-listen", "", fmt.Sprintf("`ADDRESS` of the gossip, TCP and UDP (default the host of --peer-listen, port %d)", cluster.GossipPort))
	f.Text(&c.GossipKey, "gossip-key-file", "", "`FILE` with the key of the gossip: 16, 24 or 32 bytes, plain, in hexadecimal or in base64")
	f.Text(&c.Member, "member", "", "`NAME` of this gateway, the same after a restart (default the host's name)")
	cli.Var(f, &c.Ordinal, "ordinal", "I/P", node.ParseOrdinal, node.Ordinal.String,
		"this gateway's number, from 0, among P: with split=locality it owns what rank I of P reads")
}

// clusterNames are the flags that mean nothing without --cluster.
func clusterNames() []string {
	return []string{
		"join", "peer-listen", "peer-advertise", "peer-cert", "peer-key", "peer-ca", "peer-allow", "peer-shared-cert", "peer-insecure",
		"gossip-listen", "gossip-key-file", "member", "ordinal",
	}
}

func (x *serveConfig) validateCluster(f *cli.Flags) {
	c := &x.Cluster
	if c.Name == "" {
		for _, name := range clusterNames() {
			if fl := f.Set.Lookup(name); fl.Value.String() != fl.DefValue {
				f.Fault("--%s: want --cluster NAME with it", name)
			}
		}
		return
	}
	if err := cluster.CheckName(c.Name); err != nil {
		f.Fault("--cluster: %w", err)
	}
	validateMember(c, f)
	x.validateJoin(f)
	validatePeerPort(c, f)
	validateCertificates(c, f)
	validateGossip(c, f)
}

func validateMember(c *node.ClusterConfig, f *cli.Flags) {
	if c.Member == "" {
		host, err := os.Hostname()
		if err != nil {
			f.Fault("--member: this host has no name (%w): give one", err)
			return
		}
		c.Member = host
	}
	if err := cluster.CheckName(c.Member); err != nil {
		f.Fault("--member: %w", err)
	}
}

func (x *serveConfig) validateJoin(f *cli.Flags) {
	if x.join == "" {
		f.Fault("--cluster %s: want --join WHERE with it", x.Cluster.Name)
		return
	}
	var err error
	if x.Cluster.Where, err = cluster.ParseJoin(x.join); err != nil {
		f.Fault("--join %q: %w", x.join, err)
	}
}

func validatePeerPort(c *node.ClusterConfig, f *cli.Flags) {
	if c.Listen == "" {
		f.Fault("--cluster %s: want --peer-listen ADDRESS with it", c.Name)
		return
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 {
		f.Fault("--peer-listen %q: want HOST:PORT, with a port that others can be told", c.Listen)
		return
	}
	if c.Insecure && !node.LoopbackHost(host) {
		f.Fault("--peer-insecure: others can reach --peer-listen %s; use 127.0.0.1, or certificates", c.Listen)
	}
	if c.Advertise == "" {
		if c.Advertise, err = node.Advertised(host, port); err != nil {
			f.Fault("--peer-advertise: %w", err)
			return
		}
	}
	if err := cluster.CheckAddress(c.Advertise); err != nil {
		f.Fault("--peer-advertise: %w", err)
		return
	}
	if own, _, _ := net.SplitHostPort(c.Advertise); node.LoopbackHost(own) {
		for _, t := range c.Where.Targets {
			if other, _, _ := net.SplitHostPort(t); net.ParseIP(other) != nil && !node.LoopbackHost(other) {
				f.Fault("--peer-advertise %s: only this machine can reach it, and --join names %s", c.Advertise, t)
				return
			}
		}
	}
}

func validateCertificates(c *node.ClusterConfig, f *cli.Flags) {
	files := 0
	for _, name := range []string{c.Cert, c.Key, c.CA} {
		if name != "" {
			files++
		}
	}
	switch {
	case c.Insecure && (files+len(c.Allow) > 0 || c.SharedCert):
		f.Fault("--peer-insecure: means no certificates, but some are named")
	case !c.Insecure && files < 3:
		f.Fault("--cluster %s: want --peer-cert, --peer-key and --peer-ca, or --peer-insecure on loopback", c.Name)
	}
}

func validateGossip(c *node.ClusterConfig, f *cli.Flags) {
	if c.Where.Scheme != cluster.SchemeGossip {
		if c.GossipListen != "" || c.GossipKey != "" {
			f.Fault("--gossip-listen and --gossip-key-file: want --join gossip:SEED,SEED with them")
		}
		return
	}
	if c.GossipListen == "" {
		host, _, _ := net.SplitHostPort(c.Listen)
		c.GossipListen = net.JoinHostPort(host, strconv.Itoa(cluster.GossipPort))
	}
	host, _, err := net.SplitHostPort(c.GossipListen)
	switch {
	case err != nil:
		f.Fault("--gossip-listen %q: want HOST:PORT", c.GossipListen)
	case c.GossipKey == "" && !node.LoopbackHost(host):
		f.Fault("--gossip-listen %s: others can reach it; want --gossip-key-file FILE with it", c.GossipListen)
	}
	if c.GossipKey != "" {
		if _, err := cluster.ReadKey(c.GossipKey); err != nil {
			f.Fault("--gossip-key-file: %w", err)
		}
	}
}
