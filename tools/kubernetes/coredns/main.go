// Command coredns is CoreDNS with the plugins that a cluster's names need, and no others: their clouds' and databases'
// libraries would take longer to build than all of the rest.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
