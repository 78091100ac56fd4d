// Package chunkcache keeps chunks in memory, in leased slots. Keys are generic, so it depends on no
// store and no index.
//
// A Table finds the chunks of one dataset by their numbers. The key of a chunk is looked up only
// when a request misses. A chunk with the same key that another table has loaded is then shared.
//
// Guarantees:
//
//   - One load per key, however many requests need it. A load belongs to all its waiters: it is
//     canceled when the last one leaves, not when the first does. No request joins a load that has
//     been canceled.
//   - Leased bytes do not change. A chunk is evicted, and its slot overwritten, only after its last
//     lease is closed.
//   - Start never waits for memory. It takes memory for all chunks of a request at once, or returns
//     ErrNoRoom, so two requests never wait for each other's leases. Only Buffer waits, as the
//     budget does, and its caller holds nothing meanwhile.
//   - All populated memory is reserved in the budget first, including free slots, and is freed
//     through Reclaim as soon as it is needed elsewhere. A Buffer takes a free slot first.
//   - A chunk is evicted only for one that is due sooner, or for a body that a request waits for.
//     The cache queries the due times of some idle chunks (Dataset.Due), and evicts the chunk that
//     is due last (idle.go). Chunks that no reader needs are evicted before all others, the least
//     recently used first.
//
// A Shelf has the same eviction without bytes, budget and loads, for simulations.
//
// Slots are cut from an arena outside the garbage collector's heap, in size classes an eighth of a
// power of two apart. So at most 12.5 % of a slot is unused, and a slot fits another chunk of about
// the same size, or one up to a fifth smaller. Populate allocates their memory before it is needed,
// or else the first load does. Slots are reused. Memory to decode in is not populated: a decoder
// may need any part of it, but writes only to a small part.
package chunkcache
