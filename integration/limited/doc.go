// Package limited runs the jobs of clustersim.Limited with processes: gateways, MinIO and ranks on machines of their own
// whose network cards are slow, mutual TLS between gateways. It measures for integration/experiments/nodes.go, which holds the figures
// against the simulation's. It needs Linux and root.
package limited
