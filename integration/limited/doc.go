// Package limited runs the jobs of clustersim.Limited with real processes: gateways, MinIO and
// ranks on separate machines with slow network cards, and mutual TLS between gateways.
// integration/experiments/links.go runs it, and compares the figures with those of the simulation.
// The package requires Linux and root.
package limited
