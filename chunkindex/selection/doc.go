// Package selection stores, with a dataset, the samples that a plan may deliver: named subsets, and
// lists of bad samples. It also stores what samples cost, by which plans divide batches.
//
// A split (rule.go, split.go) assigns every sample to one of several disjoint subsets by a keyed
// hash of its name, so that adding data moves no sample between subsets. It stores a count and a
// bitmap per chunk (layout.go). An open subset (subset.go) uses a few bytes of memory per chunk and
// reads bitmaps on demand. A subset of listed samples (listed.go) has the same format. A quarantine
// (quarantine.go) is a list of bad samples. A cost table (cost.go) has a number for each sample, and
// can have names. All are immutable objects named by the SHA-256 of their bytes. Each belongs to one
// generation of the dataset.
//
// docs/spec/order.md defines which samples are delivered, and docs/spec/index-format.md the stored
// bytes. Input from the bucket or a local file is untrusted and checked before use.
package selection
