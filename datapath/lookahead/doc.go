// Package lookahead knows who reads which plan, where each reader stands and how fast it goes on, and so which chunks
// are needed when. It is pure: times are handed in, nothing is read, no goroutine is started; a gateway runs it under
// its clock and a simulation under another.
//
// A rank is known from its requests alone: they say where it stands, and the time from the end of an answer to the
// next request, its think time, says how fast it would go on if nothing kept it waiting. Ranks of one plan that stand
// near each other are one reader, for they need the same chunks. What is known changes speed, never bytes.
//
// From the readers follow the answers to three questions:
//
//   - when a chunk is due (Due), in the next epoch too: the cache lets the chunk go that is due last,
//     and what is read ahead of need goes into memory only instead of what is due later;
//   - what is missing and due first (Missing): each reader has a cursor that stands at the first chunk
//     it needs soon that is not in memory, and the cursor comes first whose reader would stall first;
//   - what a rank needs of other gateways in its next batches (Course): that is asked for in runs of
//     several batches, each while the rank consumes the run before (Run, Plan).
//
// Soon are the chunks of the batch that the reader stands at, and some after them, as many as its
// memory holds.
//
// To take the cursor that is due first is the heuristic of Lobster (Liu et al., ICPP 2022) taken chunk by chunk. Lobster gives each consumer
// a fetcher and then always one more to the consumer that is slowest to get its data. Here a fetcher that
// is free goes to the chunk whose reader would stall first. That deadline comes from the reader's demand, the samples
// that it takes for each second of think time, and never from its progress: a stalled reader would look slow, get less,
// and stay stalled.
package lookahead
