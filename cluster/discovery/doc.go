// Package discovery finds addresses where gateways may be: those of a list, of a DNS name, of a
// service, or of a file. Package cluster decides which of them are members.
package discovery
