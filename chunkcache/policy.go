package chunkcache

import (
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Policy decides what goes first. It is told of the chunks that could go, those that nobody holds
// a lease on, and sees keys and sizes, never bytes. It is called under the cache's lock.
type Policy[K comparable] interface {
	Add(key K, size int64) // nobody holds it any more; it was not there before
	Remove(key K)          // somebody holds it again, or it is gone
	Victim() (K, bool)     // the one that should go first; false when there is none
	Bytes() int64          // sum of the sizes
}

// lru lets the one go that has been untouched longest.
type lru[K comparable] struct {
	list  *simplelru.LRU[K, int64]
	bytes int64
}

// NewLRU returns the policy that lets the least recently used chunk go first.
func NewLRU[K comparable]() Policy[K] {
	l := &lru[K]{}
	list, err := simplelru.NewLRU(math.MaxInt, func(_ K, size int64) { l.bytes -= size })
	if err != nil {
		panic(err) // only for a size of 0
	}
	l.list = list
	return l
}

func (l *lru[K]) Add(key K, size int64) {
	if l.list.Contains(key) {
		panic("chunkcache: key added twice") // an overwrite would skip onEvict and lose its size
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
