package format

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// HeadSize is the maximum number of bytes that Head returns.
const HeadSize = 4 << 10

// Head returns the first HeadSize bytes of an object, or the whole object if it is shorter.
func Head(ctx context.Context, l Listing, key string) ([]byte, error) {
	return l.First(ctx, key, HeadSize)
}

// Read returns a whole object, or an error if it exceeds most bytes.
func Read(ctx context.Context, l Listing, key string, most int64) ([]byte, error) {
	b, err := l.First(ctx, key, min(most, math.MaxInt64-1)+1)
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("object %s is longer than %d bytes", key, most)
	}
	return b, err
}

// Numbers of heads read concurrently: few at first, because the first heads often suffice.
const (
	firstHeads = 4
	mostHeads  = 64
)

// EachHead reads the heads of objects concurrently and passes them to visit in the order of the
// objects, until visit returns false or an error. It returns a read error only when it reaches that
// object in order. visit must not modify the head.
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
