// Package datapath brings the bytes of a batch. It looks for each chunk in memory, then on the disk if there is one, then at
// the gateway of the cluster that owns the chunk, and reads the rest from the store. docs/dev/datapath.md names the functions.
//
// A batch holds items of two kinds, and its bytes never show which:
//
//   - Leased chunks. Missing ones are loaded, all of them or none, and segments of the body are slices of them.
//   - Pinned extracts: samples without the rest of their chunks, where whole chunks would not pay or do not fit, or where
//     another gateway owns the chunk. Each sample is in one extract at most, however many batches need it.
//
// A batch waits for memory only before it holds any (assembly). A batch of several datasets (Mixture) is one batch with a part
// for each.
//
// A chunk of many objects is brought by one store read for each, under the object's own ETag. A sample of it costs one read
// in any case, so a request reads just its own samples, and the chunk is fetched ahead. A compressed chunk is
// never read in part: its stored bytes go to memory that was taken together with the chunk's, and it is decoded from there. If there is
// no room for it, it is decoded in memory that was taken when its dataset was opened (decoding), and its samples are copied.
//
// Every byte is checked before it leaves: a chunk as a whole when it arrives, a sample
// read by itself, or sent by a peer, by its own CRC.
//
// With Peers, each chunk has an owner among the gateways. A gateway reads from the store, keeps and fetches ahead
// the chunks that it owns, for the readers of all gateways (Heard). Of the others it asks the owners, all at once, for just the
// samples of this batch. In the background it asks for what the same rank needs in its next batches (readAhead), so that one
// question serves many batches and the links work while the rank trains. If an owner fails, the next choices are asked, three
// members in all at most, and then the store; if what a member sent is wrong, the store is asked. Two rules keep gateways from waiting
// for each other in a circle: to answer a peer, a gateway asks no other owner (Answer), and it waits for no memory. A chunk that
// came to this gateway lately is asked of its former owner (Former, Pull), which sends what is in its memory or on its disk
// and loads nothing.
//
// Chunks that come from the store are offered to the disk, and written there in the background. A disk that fails, is full or
// is slower than the store changes nothing but which tier answers.
//
// Package lookahead knows from the requests alone what is needed when. That has three uses here. Run fetches ahead of the
// readers, the chunk first that a reader would stall for first, across the end of the epoch, as far as the memory
// allows, and only while no request waits for memory; it leaves a chunk that could not be fetched alone for a while, and a request
// that needs the chunk gets the error. The cache evicts by it: of some idle chunks the one that is due last (eviction.go). And a
// chunk is read as a whole if what will still be used of it, at the store's measured rates, is worth that.
package datapath
