// Package fleet tests clusters under realistic conditions: eight gateway processes and a real
// MinIO, each with a separate network and a link of limited rate. Gateways use mutual TLS, and
// every rank has its own reader. Gateways are killed, frozen, disconnected and replaced while the
// readers continue.
//
// The tests require Linux, root, and ip and tc: make cluster-test.
package fleet
