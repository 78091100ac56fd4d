// Package lookahead records which readers read which plan, where each reader is and how fast it
// proceeds. From that it computes when each chunk is needed. It is pure: its callers pass the time,
// and it does no I/O and starts no goroutines, so gateways and simulations can use their own
// clocks.
//
// A rank is known only from its requests, which contain its position. The time from the end of an
// answer to the next request, its think time, shows how fast it would proceed without waiting.
// Ranks of one plan at nearby positions are one reader, since they need the same chunks. The
// predictions affect speed, never bytes.
//
// The table of readers answers three questions:
//
//   - When is a chunk due, in this epoch or a later one (NextUse)? The cache evicts the chunk that
//     is due last, and chunks are prefetched only in place of chunks that are due later.
//   - Which missing chunk is due first (Missing)? Each reader has a cursor at the first chunk that
//     it needs soon and that is not in memory. The cursor whose reader would stall first is served
//     first.
//   - Which samples does a rank need from other gateways for its next batches (Course)? They are
//     requested in runs of several batches, each while the rank consumes the previous run (Run,
//     Plan).
//
// A reader needs a chunk soon if its current batch needs the chunk, or if the chunk is one of the
// following ones, up to the number that memory can hold.
//
// Serving the cursor that is due first is the heuristic of Lobster (Liu et al., ICPP 2022), applied
// chunk by chunk. Lobster gives each consumer one fetcher, and then one more at a time to the
// consumer that is slowest to get its data. Here a free fetcher goes to the chunk whose reader
// would stall first. That deadline is computed from the reader's demand, the samples that it takes
// per second of think time, never from its progress: a stalled reader would appear slow, get less,
// and stay stalled.
package lookahead
