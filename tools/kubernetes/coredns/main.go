// Command coredns is CoreDNS with only the plugins that a cluster's names require. The libraries of
// other plugins, for clouds and databases, would take longer to build than everything else.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
