// Package discovery finds addresses at which gateways may be, from a list, a DNS name, a service,
// or a file. Package cluster decides which of them are members.
package discovery
