// Package chunkindex knows where every sample of a dataset lies.
//
// Build makes an index: it lists the objects (build.go), finds out their format (survey.go, formats.go), takes over the shards that have not changed (reuse.go),
// scans the others (scan.go, loose.go) with the scanner of their format (the package format and those beside it), decoded where they are
// compressed (the package codec), cuts chunks (cut.go), keeps each scan for a run that
// is killed (scanfile.go), writes the index file (write.go, layout.go, hash.go) and publishes it (publish.go).
//
// Open fetches an index (open.go), checks all that stays in memory (parse.go) and finds the framing of batches (the package framing); sample tables, names and parts are read from the
// local file when they are asked for (index.go, record.go, lookup.go). Verify reads the shards again (verify.go).
//
// Whatever is read, from a shard or from the store, is input: it is checked before it is used. docs/index-format.md
// draws every object byte by byte.
package chunkindex
