package main

import (
	"fmt"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cmd/internal/cli"
)

func (x *serveConfig) defineCluster(f *cli.Flags) {
	c := &x.ClusterConfig
	f.Text(&c.Cluster, "cluster", "", "be one cache with the other gateways of the cluster `NAME`: wants --join and --peer-listen")
	f.Text(&x.join, "join", "", "`WHERE` to find the other gateways: HOST:PORT,HOST:PORT or dns:NAME:PORT or srv:NAME or file:FILE")
	f.Text(&c.PeerListen, "peer-listen", "", fmt.Sprintf("`ADDRESS` of the port for other gateways, such as 0.0.0.0:%d", discovery.PeerPort))
	f.Text(&c.PeerCert, "peer-cert", "", "PEM `FILE` with this gateway's certificate, for both ends of a connection")
	f.Text(&c.PeerKey, "peer-key", "", "PEM `FILE` with the key of --peer-cert")
	f.Text(&c.PeerCA, "peer-ca", "", "PEM `FILE` with the authority that has signed the gateways' certificates")
	f.List(&c.PeerAllow, "peer-allow", "`NAME` that a gateway's certificate must have, where * stands for anything but a dot; may be repeated (default any that --peer-ca has signed)")
	f.Flag(&c.PeerSharedCert, "peer-shared-cert", "gateways share a certificate: its names need not have the --member name of the gateway that shows it")
	f.Flag(&c.PeerInsecure, "peer-insecure", "no certificates: every process that reaches the peer port may read every dataset; on loopback only")
	f.Text(&c.Member, "member", "", "`NAME` of this gateway, the same after a restart (default the host's name)")
}

// clusterNames are the flags that mean nothing without --cluster.
func clusterNames() []string {
	return []string{
		"join", "peer-listen", "peer-cert", "peer-key", "peer-ca", "peer-allow", "peer-shared-cert", "peer-insecure", "member",
	}
}

// readJoin reads where the other gateways are. Without a cluster no flag of one may be given.
func (x *serveConfig) readJoin(f *cli.Flags) {
	if x.Cluster == "" {
		for _, name := range clusterNames() {
			if fl := f.Set.Lookup(name); fl.Value.String() != fl.DefValue {
				f.Fault("--%s: want --cluster NAME with it", name)
			}
		}
		return
	}
	if x.join == "" {
		f.Fault("--cluster %s: want --join WHERE with it", x.Cluster)
		return
	}
	var err error
	if x.Join, err = discovery.ParseJoin(x.join); err != nil {
		f.Fault("--join %q: %w", x.join, err)
	}
}
