package chunkcache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// lru lets the one go that has been untouched longest.
type lru[K comparable] struct {
	list  *simplelru.LRU[K, int64]
	bytes int64
}

// NewLRU returns the policy that lets the least recently used chunk go first. Where every chunk is read once an
// epoch it is the worst there is: a cache of half the data answers 15 % of the reads, and one of a tenth none.
func NewLRU[K comparable]() Policy[K] {
	l := &lru[K]{}
	list, err := simplelru.NewLRU(math.MaxInt, func(_ K, size int64) { l.bytes -= size })
	if err != nil {
		panic(err) // only for a size of 0
	}
	l.list = list
	return l
}

func (l *lru[K]) Add(key K, size int64, _ uint64) {
	if l.list.Contains(key) {
		panic(addedTwice) // an overwrite would skip onEvict and lose its size
	}
	l.list.Add(key, size)
	l.bytes += size
}

func (l *lru[K]) Remove(key K) { l.list.Remove(key) }

func (l *lru[K]) Victim() (K, bool) {
	key, _, ok := l.list.GetOldest()
	return key, ok
}

func (l *lru[K]) Bytes() int64 { return l.bytes }
