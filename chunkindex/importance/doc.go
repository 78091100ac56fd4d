// Package importance turns the losses that trainers report into weights that a plan can draw by.
//
// A trainer reports the losses of positions of a global batch (report.go). Reports lie in the bucket as small
// immutable objects (log.go), so that neither the order in which they arrive nor the gateway that takes
// them matters; where the bucket refuses writes, they wait in a local file (kept.go) until
// they can be sent (flush.go). At an epoch's end they are
// ranked within their global batches (fold.go, weight.go), and the weights of all samples are
// frozen (freeze.go) in a snapshot: an immutable object named by the SHA-256 of its bytes (layout.go). Whoever
// opens it (open.go) holds a few bytes for each chunk; the weights of a chunk's samples are read from
// a local file when they are asked for (snapshot.go).
//
// The idea is SHADE's (Khan et al., SHADE: Enable Fundamental Cacheability for Distributed Deep Learning
// Training, FAST 2023): rank-based importance, weight ln(rank+10), and the repetition of a hot set.
// docs/spec/importance.md states every format and formula.
//
// Whatever is read, from a trainer, the bucket or a local file, is input: it is checked before it is used.
package importance
