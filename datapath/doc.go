// Package datapath brings the bytes of a batch: memory, then the disk if there is one, then the other gateways of a cluster if
// there are some, then the store.
//
// A batch is read in one call, and memory is taken in one step, never piece by piece
// while holding what others need. A request takes one of two ways, which never
// shows in its bytes:
//
//   - Its chunks fit into memory together: they are leased, those missing are loaded, and
//     the segments of its body are slices of them.
//   - They do not, or whole chunks would not pay: the body's own bytes are reserved, and
//     the samples are copied into it, chunk by chunk as far as there is room for
//     chunks, and for the rest by reading the samples' own ranges, near ones
//     joined, straight into the body. This way needs no memory but the body's.
//
// A batch of several datasets (Mixture) is one batch: it takes the first way with all its parts, or the second with all of them.
//
// A chunk of many objects is read by as many store reads side by side, each under its object's own ETag. Since a sample of it costs
// a read, alone as with the others, a request reads just its own, and the chunk comes ahead of need. A compressed chunk is
// never read in part: its stored bytes go to memory that was taken together with the chunk's, and it is decoded from there. Where there is
// no room for it, its samples are copied out of memory that was taken when its dataset was opened (decoding).
//
// Every byte is checked before it leaves: a chunk as a whole when it arrives, a sample
// read by itself, or sent by a peer, by its own CRC.
//
// Where there are Peers, each chunk has an owner among them. A gateway reads from the store, keeps and looks ahead for
// the chunks that it owns, for the readers of all gateways (Heard); its memory reaches that much farther. Of the others
// it asks the owners, all at once, for just the samples of this batch; and beside it, in the background, for what the same rank needs in
// its next batches (readAhead), so that one question serves many batches and the links work while the rank trains. What a peer does not send is asked of whoever owns it then,
// twice at most, and then of the store; what it sends wrong, of the store. Two rules keep gateways from waiting for each other in a circle: what a peer asks is
// asked of no other one (Answer), and it waits for no memory. A chunk that has come to this gateway lately is asked of whoever had it before
// (Former, Pull), who sends what is in its memory or on its disk and loads nothing.
//
// Chunks that come from the store are offered to the disk, and written there beside all this; a disk that fails, is full or
// is slower than the store changes nothing but who answers.
//
// What is needed when is known to lookahead, from the requests alone, and has three uses here. Run fetches ahead of the
// readers, the chunk first that a reader would stall for first, across the end of the epoch, as far as the memory
// allows, and only while no request waits; a chunk that could not be fetched it leaves alone for a while: the error is
// for whoever needs it. Before the cache lets a chunk go it asks when some of
// them are due, and the last of these goes, only for one that is due sooner (eviction.go). And a chunk is read as a whole where what will still be used of it, at the store's measured rates, is worth
// that.
package datapath
