// Package s3backend implements objstore.Store on an S3-compatible service. It is the only package
// that imports minio-go, and the only layer that retries a failed transfer. It signs and sends
// reads without minio-go, which takes twice the processor time for a small read.
//
// Required permissions: s3:GetObject and s3:ListBucket to serve (without ListBucket a missing
// object is reported as "denied"), s3:PutObject and s3:DeleteObject to write an index or shards.
//
// Requests: one GET per ReadRange, one per Open, one HEAD per Stat, and one list request per 1,000
// keys. A Put up to the part size is one PUT; a larger one is one PUT per part and two more
// requests. Retries are additional, from a budget of a tenth of the requests. The second GET of a
// ReadRange is also additional. It is sent if the response begins later than the recent 99th
// percentile, for at most one request in a hundred.
//
// The service must provide read-after-write consistency, and conditional writes if a Condition is
// used. It need not honor If-Match on reads, or respond with the requested range: both are checked
// before a byte is accepted.
package s3backend
