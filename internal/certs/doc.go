// Package certs holds certificates that are read again when their files change. A Peer is what
// gateways know each other by; a Port is the certificate of the data port and of the admin port.
package certs
