package layout

import (
	"crypto/sha256"
	"encoding/binary"
)

// HashKey returns the first eight bytes, big-endian, of the key's SHA-256.
func HashKey(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8])
}

// HashRecord is one record of the hash section: the key hash of a sample and the sample's number.
type HashRecord struct{ Hash, Sample uint64 }

// Less reports whether r sorts before other in the hash section.
func (r HashRecord) Less(other HashRecord) bool {
	return r.Hash < other.Hash || r.Hash == other.Hash && r.Sample < other.Sample
}
