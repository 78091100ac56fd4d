package chunkcache

// Policy decides which chunk goes first. It is told of the chunks that could go, those that nobody holds a lease on,
// and sees keys and sizes, never bytes. It is called under the cache's lock: it must be quick and must not call the
// cache. One that knows the readers may have a method Refresh too: it is called when they have changed.
//
// A policy has no say about the chunks that a reader comes for soon: the cache keeps those apart, in a list of their own with
// a policy of the same kind, and lets none of them go while another can (see Cache.SetWarm).
type Policy[K comparable] interface {
	// Add tells that nobody holds a chunk any more. It was not there before. The number admitted grows
	// from chunk to chunk as they come into memory; a chunk that was leased, or moved to this list from the other
	// one, comes with the number it had.
	Add(key K, size int64, admitted uint64)
	Remove(key K)      // somebody holds it again, or it is gone; nothing happens if it is not there
	Victim() (K, bool) // the one that should go first; false when there is none
	Bytes() int64      // sum of the sizes
}

// refresher is a policy that is told when the readers have changed.
type refresher interface{ Refresh() }
