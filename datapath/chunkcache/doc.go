// Package chunkcache keeps chunks in memory, in leased slots. Keys are generic: it knows
// no store and no index.
//
// A Table finds the chunks of one data set by their numbers. The key of a chunk is looked up only when
// a request finds something missing: then a chunk of the same key that another table brought is taken over.
//
// What it guarantees:
//
//   - One load per key, however many ask. A load belongs to its waiters together: it is
//     cancelled when the last one leaves, never when the first does, and a newcomer
//     never joins a load that is being given up.
//   - Leased bytes do not change. A chunk is evicted only after its last lease is closed, and its
//     slot is written again only after that.
//   - Start never waits for memory. It takes memory for all chunks of a request at once, or none
//     and answers ErrNoRoom, so two requests never wait for each other's leases. Only Buffer
//     waits, as the budget does, and its caller holds nothing meanwhile.
//   - Every byte that it populates is reserved in the budget first, free slots included, and is given
//     back through Reclaim as soon as somebody else needs it. A Buffer takes a free slot first.
//   - A chunk is evicted only for one that is due sooner, or for a body that a request waits for. The
//     cache asks some idle chunks when they are due, by the Due of their Dataset, and evicts the one that
//     is due last (idle.go). Chunks that no reader comes for go before all others, the least recently
//     used first.
//
// A Shelf is all of that but the bytes, the budget and the loads: which chunks are there, which are
// held, which goes first. A simulation uses one alone.
//
// Slots are cut from an arena outside the garbage collector's sight, in size classes an
// eighth of a power of two apart, so that at most 12.5 % of a slot is unused and a slot
// fits another chunk of about the same size, or one that is up to a fifth smaller. They are populated by Populate before
// they are needed, or else by the first load that fills them, and used again and again. Memory to decode in is not
// populated: a decoder may need any part of it, and writes to little.
package chunkcache
