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
//   - Bytes that somebody holds a lease on do not change. A slot is written again only
//     after its last lease is closed; eviction drops the cache's own hold only.
//   - Nobody waits for memory here. Start takes room for everything it asks for at
//     once, or nothing and answers ErrNoRoom, so two requests never wait for each
//     other's leases.
//   - Every byte that it populates is reserved in the budget first, free slots included, and is given
//     back through Reclaim as soon as somebody else needs it. Who waits for memory takes a free slot first.
//   - A chunk goes only for one that is due sooner, or for a body that somebody waits for. Before one
//     goes, some idle chunks are asked when they are due (NewTable), and the last of them goes
//     (idle.go). What no reader comes for goes before all others, the least recently used first.
//
// A Shelf is all of that but the bytes, the budget and the loads: which chunks are there, which are
// held, which goes first. A simulation uses one alone.
//
// Slots are cut from an arena outside the garbage collector's sight, in size classes an
// eighth of a power of two apart, so that at most 12.5 % of a slot is unused and a slot
// fits another chunk of about the same size, or one that is up to a fifth smaller. They are populated by Populate before
// they are needed, or else by the first load that fills them, and used again and again.
package chunkcache
