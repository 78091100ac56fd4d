// Package peer is how one gateway asks another one for bytes: the questions, their form on the wire, the server that
// answers them and the client that asks.
//
// Gateways are one cache together: each chunk has an owner among them (package placement), who reads it from the
// store once and whom the others ask for just the samples that they need. What is asked is never asked on: whoever
// gets a question answers from what it has, or from the store. The one thing that a new owner may ask meanwhile is
// whether the chunk's former one still has it (Query.Cached), which loads nothing and asks nobody. Nothing that arrives
// is trusted: the asker compares it with its own index before anybody sees it.
//
// # The protocol
//
// HTTP/1.1 on a port of its own, kept alive, no redirects, no compression. Between machines it runs under TLS 1.3 with a
// certificate on each side (package certs). Every request is a POST that says the cluster's name, the protocol's version and who
// asks (ClusterHeader, VersionHeader, MemberHeader). A request with another name or version is refused
// before its body is read, with a code that says which of them; so is one whose member is not the one that its certificate names.
//
//	/peer/v1/read   a Query in its binary form, and in DeadlineHeader how long the asker will wait. The answer is the bytes
//	                of the ranges, in order, with their sum as Content-Length, or a problem (RFC 9457) with a code.
//	/peer/v1/hello  a Hello as JSON; the answer is the other one's, with what the asker is to take over if the other one drains.
//
// While a server brings what it does not have, it sends the informational status 102 every 200 ms. So the asker tells a
// slow store, for which it waits as long as its deadline allows, from a gateway that has stopped: one that says nothing
// for 500 ms is down. A body that rests for 500 ms is given up as well, and so is one that needs more than 2 s and comes
// at less than 1 MiB/s. Nothing that travels is a time of day: clocks may differ.
//
// An answer that has begun ends whole, or its connection breaks. The asker takes exactly the bytes that it asked for.
package peer
