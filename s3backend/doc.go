// Package s3backend is the store seam on an S3-compatible service. It is the only
// package that knows minio-go, and the only layer that repeats a failed transfer. Reads are
// signed and sent without minio-go, which takes twice the processor time for a small one.
//
// Permissions needed: s3:GetObject and s3:ListBucket to serve (without ListBucket an
// object that is missing is answered with "denied"), s3:PutObject and s3:DeleteObject
// to write an index or shards.
//
// Requests made: one GET per ReadRange, one per Open, one HEAD per Stat, one list
// request per 1,000 keys, one PUT per Put up to the part size, else one per part and two.
// Every repetition comes on top and is paid from a budget of a tenth of the requests, and
// so is the second GET of a ReadRange whose answer begins later than 99 of 100 lately did:
// at most one in a hundred.
//
// Assumed of the service: read-after-write consistency, and conditional writes where a
// Condition is used. Not assumed: that it honours If-Match on reads, or answers the
// range asked for. Both are checked before a byte is accepted.
package s3backend
