// Package gateway serves batches over HTTP. A batch is an address: its bytes are a pure
// function of the URL and the index generation, so the gateway keeps no session.
//
// The life of a request:
//
//  1. The edge (handler.go) gives it an id, a deadline and a recorder, and refuses bodies.
//  2. The URL is decoded strictly (address): all faults in one answer.
//  3. The ETag follows from the address alone: If-None-Match is answered here, before any read.
//  4. The epoch of the batch is looked up among the recent ones, or prepared (plans).
//  5. The samples are located through the index and laid out in a form (body): length and CRC-32C are known.
//  6. One call to the Source brings all segments; only then is the first byte written (batch.go).
//  7. Every failure is one row of one table (errors.go) until the first byte, and an aborted
//     connection after it.
//  8. One access line and the metrics say where the time went.
package gateway
