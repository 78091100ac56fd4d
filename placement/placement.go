// Package placement says which gateway of a cluster is to hold a chunk. It is pure arithmetic over whoever is there:
// nothing is stored, nothing agreed upon. Views that differ cost a read, never a byte.
package placement

// Member is one gateway as placement sees it.
type Member struct {
	ID      string // the same after a restart
	Weight  uint64 // bytes of cache: a member owns chunks in proportion to it; 0 owns none
	Ordinal int    // its number among Of gateways where the fleet numbers them
	Of      int    // 0: it has no number
}
