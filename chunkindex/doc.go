// Package chunkindex reads an index, which knows where every sample of a dataset lies. The package build makes indexes.
//
// Open fetches an index (open.go), checks all that stays in memory (parse.go) and finds the framing of batches (the package framing); sample
// tables, names and parts are read from the local file when they are asked for (index.go, details.go, lookup.go). Verify reads the shards
// again (verify.go). FindUnused lists what no generation needs (unused.go).
//
// Whatever is read, from a shard or from the store, is input: it is checked before it is used. docs/spec/index-format.md
// draws every object byte by byte, and the package layout has their forms.
package chunkindex
