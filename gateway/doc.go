// Package gateway serves batches over HTTP. The bytes of a batch are a pure function of the URL and
// the index generation, so the gateway keeps no sessions.
//
// The life of a request:
//
// 1. The edge (handler.go) assigns an ID, a deadline and a recorder, and rejects unexpected bodies.
// 2. The URL is decoded strictly (package address): one answer reports all faults. 3. The ETag
// depends only on the address. If-None-Match is answered here, before any read. 4. The epoch of the
// batch is found among the recent ones, or prepared (package plans). 5. The samples are located
// through the index and laid out in a form (package body), which
//
//	gives the length and CRC-32C.
//
// 6. One call to the Source reads all segments. Only then is the first byte written (batch.go). 7.
// Until the first byte, each failure maps to a row of one table (errors.go). Later failures
//
//	abort the connection.
//
// 8. One access line and the metrics record how long each phase took.
package gateway
