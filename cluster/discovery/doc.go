// Package discovery finds addresses where gateways may be: those of a list, of a name, of a service, or of a file. Who is a member is
// not its business: that is said by the gateway that answers there (package cluster).
package discovery
