package body

import (
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway/plans"
)

// loaded are all samples of a body, in memory before the body is laid out.
type loaded struct {
	read    *batch.Body
	reserve func(n int64) (release func(), err error) // reserves memory for converted values
	held    plans.Holds                               // the reserved memory
}

// Whole returns a part with all samples of the body, to read them before the body is laid out.
func (b *Body) Whole() Part {
	b.pieces, b.Size = b.pieces[:0], 0
	b.whole()
	total := int64(0)
	for _, n := range b.lengths {
		total += int64(n)
	}
	return b.Part(Span{0, total})
}

// Load sets the samples that Whole selects, and the function that reserves memory for converted
// values. The body closes the samples and releases the memory when it is returned to the pool.
func (b *Body) Load(read *batch.Body, reserve func(n int64) (release func(), err error)) {
	b.loaded = &loaded{read: read, reserve: reserve}
}

// Take returns the samples of Load, which the caller must then close. It returns nil if there are
// none.
func (b *Body) Take() (read *batch.Body) {
	if b.loaded != nil {
		read, b.loaded.read = b.loaded.read, nil
	}
	return read
}

// close releases the samples and the memory.
func (l *loaded) close() {
	if l.read != nil {
		l.read.Close()
	}
	l.held.Drop()
}
