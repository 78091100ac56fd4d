// Package fleet holds the tests of clusters as they run in earnest: eight gateways as processes of their own and a real
// MinIO, each on a machine of its own as far as the network goes, with links of a limited rate, mutual TLS between the
// gateways and one reader for every rank. They are killed, stopped, cut off and replaced while the readers continue.
//
// They need Linux, root, and ip and tc: make cluster-test.
package fleet
