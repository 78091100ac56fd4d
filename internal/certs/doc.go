// Package certs holds certificates, and reads them again when their files change. A Peer is the
// certificate by which gateways authenticate each other. A Port is the certificate of the data port
// and of the admin port.
package certs
