// Package importance converts the losses that trainers report into sampling weights for plans.
//
// A trainer reports the losses of positions of a global batch (report.go). Reports are stored in
// the bucket as small immutable objects (log.go), so neither their order nor the receiving gateway
// matters. If the bucket denies writes, a local file (kept.go) holds the reports until they can be
// sent (flush.go). At the end of an epoch, the losses are ranked within their global batches
// (fold.go, weight.go). The weights of all samples are then frozen (freeze.go) in a snapshot, an
// immutable object named by the SHA-256 of its bytes (layout.go). An open snapshot (open.go) uses a
// few bytes of memory per chunk, and reads the weights of a chunk's samples from a local file on
// demand (snapshot.go).
//
// The method is that of SHADE (Khan et al., SHADE: Enable Fundamental Cacheability for Distributed
// Deep Learning Training, FAST 2023): rank-based importance, weight ln(rank+10), and repetition of
// a hot set. docs/spec/importance.md defines every format and formula.
//
// Input from trainers, the bucket or a local file is untrusted and checked before use.
package importance
