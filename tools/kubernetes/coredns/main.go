// Command coredns is CoreDNS with the plugins that a cluster's names need, and no others: their clouds' and databases'
// libraries would take longer to build than all of the rest.
package main

import (
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
