// Package peer is the protocol by which gateways ask each other for bytes: the questions, their
// binary form, the server and the client.
//
// The gateways of a cluster form one cache. Each chunk has an owner (package placement), which
// reads it from the store once. The other gateways ask the owner for only the samples that they
// need. Questions are not forwarded: a gateway answers from its own tiers or from the store. There
// is one exception: a new owner may ask the chunk's former owner for the chunk (Query.Cached). The
// former owner then loads nothing and asks no other gateway. Answers are not trusted: the asker
// compares them with its own index before use.
//
// # The protocol
//
// HTTP/1.1 on a separate port, with keep-alive, without redirects and compression. Between machines
// it uses TLS 1.3 with a certificate on each side (package certs). Every request is a POST with the
// cluster's name, the protocol's version and the asker's name (ClusterHeader, VersionHeader,
// MemberHeader). A request with another cluster name or version is refused before its body is read,
// with a code for the reason. So is a request whose member name is not in its certificate.
//
//	/peer/v1/read   a Query in its binary form, with the asker's timeout in DeadlineHeader. The
//	                answer is the bytes of the ranges, in order, with their total as
//	                Content-Length, or a problem (RFC 9457) with a code.
//	/peer/v1/hello  a Hello as JSON. The answer is the other gateway's hello, with the chunks to
//	                take over if that gateway is draining.
//
// While a server loads bytes, it sends the informational status 102 every 200 ms. So the asker can
// distinguish a slow store, for which it waits until its deadline, from a stopped gateway, which is
// silent for 500 ms. A body without progress for 500 ms is canceled, and so is a body that takes
// more than 2 s at less than 1 MiB/s. No message contains a time of day, since clocks may differ.
//
// An answer is either complete, or its connection breaks. The asker accepts exactly the number of
// bytes that it asked for.
package peer
