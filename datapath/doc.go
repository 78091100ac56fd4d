// Package datapath reads the bytes of a batch. It looks for each chunk in memory, then on the disk
// if there is one, then at the gateway of the cluster that owns the chunk, and reads the rest from
// the store. docs/dev/datapath.md names the functions.
//
// A batch holds items of two kinds, and returns the same bytes with either:
//
//   - Leased chunks. Missing ones are loaded, all or none, and segments of the body are slices of
//     them.
//   - Pinned extracts: samples without the rest of their chunks, where whole chunks would not pay
//     or do not fit, or where another gateway owns the chunk. Each sample is in at most one
//     extract, however many batches need it.
//
// A batch waits for memory only before it holds any (assembly). A batch of several datasets
// (Mixture) is one batch with one part per dataset.
//
// A chunk of many objects takes one store read per object, under the object's own ETag. A sample of
// it costs one read in any case, so a request reads only its own samples, and prefetch reads the
// chunk. A compressed chunk is never read in part: its stored bytes go to memory that was reserved
// together with the chunk's, and it is decoded from there. If there is no room for it, it is
// decoded in memory that was reserved when its dataset was opened (decoding), and its samples are
// copied.
//
// Every byte is checked before it is sent: a whole chunk when it arrives, and a sample that was read
// separately or sent by a peer by its own CRC.
//
// With Peers, each chunk has an owner among the gateways. A gateway reads from the store, keeps and
// prefetches the chunks that it owns, for the readers of all gateways (Heard). It asks the other
// owners concurrently, and only for the samples of this batch. In the background it asks for the
// samples that the same rank needs in its next batches (readAhead), so one query serves many
// batches and the links work while the rank trains. If an owner fails, the gateway asks the next
// choices, at most three members in all, and then the store. If a member sends wrong bytes, it asks
// the store. Two rules keep gateways from deadlock: to answer a peer, a gateway asks no other owner
// (Answer), and it waits for no memory. A gateway asks the former owner for a chunk that it has
// owned only recently (Former, Pull). The former owner sends the chunk from its memory or disk, and
// loads nothing.
//
// Chunks that come from the store are offered to the disk, and written in the background. If the
// disk fails, is full or is slower than the store, only the tier that delivers the bytes changes.
//
// Package lookahead predicts from the requests when each chunk is needed. That has three uses here.
// Run prefetches for the readers, first the chunk that a reader would stall for first, across the
// end of the epoch. It does so as far as memory allows, and only while no request waits for memory.
// After a failed fetch it skips the chunk for a while; a request that needs the chunk gets the
// error. The cache evicts the idle chunk whose next use is last (eviction.go). And a chunk is read
// whole if its expected use justifies that, at the store's measured rates.
package datapath
