// Package selection keeps, beside a dataset's index, which of its samples a plan may deliver: how the dataset is cut into
// named subsets, and which samples are bad.
//
// A split (rule.go, split.go) puts every sample into one of some named, disjoint subsets by a keyed hash of its name, so that data that is
// added moves no sample from one subset to another. It is stored with a count and a bitmap for each chunk (layout.go), and whoever opens it
// (subset.go) holds a few bytes a chunk and reads a bitmap when it is asked for. A subset of listed samples (listed.go) is stored in the same form. A quarantine (quarantine.go) is a list of
// bad samples. Both are immutable objects named by the SHA-256 of their bytes, and belong to one generation of the dataset.
//
// docs/spec/order.md says which samples are delivered for them, docs/spec/index-format.md what is stored, byte by byte. Whatever is
// read, from the bucket or a local file, is input: it is checked before it is used.
package selection
