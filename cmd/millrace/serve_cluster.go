package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cmd/internal/cli"
)

func (x *serveConfig) defineCluster(f *cli.Flags) {
	c := &x.ClusterConfig
	f.Main().Text(&c.Cluster, "cluster", "", "`NAME` share one cache with the gateways of this cluster")
	f.Main().Text(&x.join, "join", "", "`PEERS` other gateways: HOST:PORT,..., dns:NAME:PORT, srv:NAME or file:FILE")
	f.Main().Text(&c.PeerListen, "peer-listen", "", fmt.Sprintf("`ADDRESS` port for other gateways, such as 0.0.0.0:%d", discovery.PeerPort))
	f.Text(&c.PeerCert, "peer-cert", "", "`FILE` PEM certificate of this gateway as client and server")
	f.Text(&c.PeerKey, "peer-key", "", "`FILE` PEM key of --peer-cert")
	f.Text(&c.PeerCA, "peer-ca", "", "`FILE` PEM file of the CA that signed the peers' certificates")
	f.Texts(&c.PeerAllow, "peer-allow", nil, "`NAME` peer certificate name to accept, such as gw-*; repeatable (default any)")
	f.SettingOnly().Flag(&c.PeerSharedCert, "peer-shared-cert", "all gateways share one certificate, without member names")
	f.Flag(&c.PeerInsecure, "peer-insecure", "connect gateways without certificates; loopback only")
	f.Text(&c.Member, "member", "", "`NAME` name of this gateway, the same after restarts (default the host name)")
}

// readJoin parses --join. Without --cluster it records a fault for each setting of a cluster.
func (x *serveConfig) readJoin(f *cli.Flags) {
	if x.Cluster == "" {
		f.Set.VisitAll(func(fl *pflag.Flag) {
			if cli.SectionOf(fl) == "cluster" && fl.Name != "cluster" && fl.Value.String() != fl.DefValue {
				f.Fault("%s requires --cluster NAME", f.NameOf(fl.Name))
			}
		})
		return
	}
	if x.join == "" {
		f.Fault("--cluster requires --join PEERS")
		return
	}
	var err error
	if x.Join, err = discovery.ParseJoin(x.join); err != nil {
		f.Fault("--join %q: %w", x.join, err)
	}
}
