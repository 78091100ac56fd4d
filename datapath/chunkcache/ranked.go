package chunkcache

import "container/heap"

const addedTwice = "chunkcache: key added twice"

// ranked holds chunks by rank: the highest goes first, and of equal ones the one that was added first.
type ranked[K comparable] struct {
	nodes nodes[K] // a heap
	at    map[K]*node[K]
	added uint64
	bytes int64
}

type node[K comparable] struct {
	key   K
	size  int64
	rank  int64
	added uint64
	place int // in the heap
}

func newRanked[K comparable]() ranked[K] { return ranked[K]{at: map[K]*node[K]{}} }

func (r *ranked[K]) add(key K, size, rank int64) {
	if r.at[key] != nil {
		panic(addedTwice)
	}
	r.added++
	n := &node[K]{key: key, size: size, rank: rank, added: r.added}
	r.at[key] = n
	r.bytes += size
	heap.Push(&r.nodes, n)
}

// Remove takes a chunk out, if it is there.
func (r *ranked[K]) Remove(key K) {
	n := r.at[key]
	if n == nil {
		return
	}
	heap.Remove(&r.nodes, n.place)
	delete(r.at, key)
	r.bytes -= n.size
}

// Victim returns the chunk that goes first.
func (r *ranked[K]) Victim() (key K, ok bool) {
	if len(r.nodes) == 0 {
		return key, false
	}
	return r.nodes[0].key, true
}

// Bytes returns the sum of the sizes.
func (r *ranked[K]) Bytes() int64 { return r.bytes }

// nodes is what container/heap works on.
type nodes[K comparable] []*node[K]

func (h nodes[K]) Len() int { return len(h) }

func (h nodes[K]) Less(i, j int) bool {
	if h[i].rank != h[j].rank {
		return h[i].rank > h[j].rank
	}
	return h[i].added < h[j].added
}

func (h nodes[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *nodes[K]) Push(x any) {
	n := x.(*node[K])
	n.place = len(*h)
	*h = append(*h, n)
}

func (h *nodes[K]) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
