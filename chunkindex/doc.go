// Package chunkindex reads indexes, which locate every sample of a dataset. Package build writes
// them.
//
// Open fetches an index (open.go), checks its resident sections (parse.go) and reads the framing of
// batches (package framing). Sample tables, names and parts are read on demand (index.go,
// details.go, lookup.go). Verify compares the shards with the index (verify.go). FindUnused lists
// objects that no generation needs (unused.go).
//
// All bytes from shards or the store are untrusted and are checked before use.
// docs/spec/index-format.md describes every object byte by byte; package layout implements that
// format.
package chunkindex
