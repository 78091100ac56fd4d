package format

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// HeadSize is how many bytes Head returns of an object that has more.
const HeadSize = 4 << 10

// Head returns the first bytes of an object, HeadSize of them or all there are.
func Head(ctx context.Context, l Listing, key string) ([]byte, error) {
	return l.First(ctx, key, HeadSize)
}

// Read returns a whole object of at most most bytes; a longer one is an error.
func Read(ctx context.Context, l Listing, key string, most int64) ([]byte, error) {
	b, err := l.First(ctx, key, min(most, math.MaxInt64-1)+1)
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("object %s is longer than %d bytes", key, most)
	}
	return b, err
}

// Heads that are read side by side: few at first, since the first of them often says all.
const (
	firstHeads = 4
	mostHeads  = 64
)

// EachHead reads the heads of objects, several side by side, and hands them to visit in the order of the objects, until it wants
// no more or fails. A head that cannot be read is an error only when it is its turn. visit must not change the head.
func EachHead(ctx context.Context, l Listing, objects []Object, visit func(o Object, head []byte) (more bool, err error)) error {
	for ahead := firstHeads; len(objects) > 0; ahead = min(2*ahead, mostHeads) {
		some := objects[:min(ahead, len(objects))]
		objects = objects[len(some):]
		heads, errs := make([][]byte, len(some)), make([]error, len(some))
		var group sync.WaitGroup
		for i, o := range some {
			group.Go(func() { heads[i], errs[i] = Head(ctx, l, o.Key) })
		}
		group.Wait()
		for i, o := range some {
			if errs[i] != nil {
				return errs[i]
			}
			if more, err := visit(o, heads[i]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}
