package chunkcache

// keep lets the one go that came last.
type keep[K comparable] struct{ ranked[K] }

// NewKeep returns the policy that never gives up what came first: the chunk that came into memory last goes first,
// so what is there when the memory is full stays for good, and all that comes later passes through. Where every chunk is
// read once an epoch by one reader no policy reads less from the store: all but the cache's size. It needs no
// knowledge of the readers.
//
// This is the MinIO cache of CoorDL (Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021, section 4.1),
// with chunks in place of files, and with a place for the newcomer, since a chunk in use has to be somewhere.
func NewKeep[K comparable]() Policy[K] { return &keep[K]{newRanked[K]()} }

func (k *keep[K]) Add(key K, size int64, admitted uint64) { k.add(key, size, int64(admitted)) }
