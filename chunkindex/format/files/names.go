package files

import (
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// ofOneKind returns an error unless the names show that each object is a sample of the same kind.
func ofOneKind(objects []format.Object) error {
	first := ""
	for i, o := range objects {
		kind := naming.Kind(o.Key)
		if i == 0 {
			first = kind
		}
		switch {
		case kind == "":
			return &UnknownError{o.Key}
		case kind != first:
			return fmt.Errorf("objects %s (%s) and %s (%s) are of different kinds, so one object may not be one sample: select one kind with --match, combine objects into samples with millrace pack, or make each object a sample with --format files",
				objects[0].Key, first, o.Key, kind)
		}
	}
	return nil
}

// UnknownError reports an object that may hold any number of samples.
type UnknownError struct{ Key string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("object %s: its name is not that of an image, audio, video, array or text file, so it may hold any number of samples: exclude it with --match, or index every object as one sample with --format files", e.Key)
}

// whole marks a shard whose extension is part of its key, because another object's name differs
// only by the extension.
const whole = "whole name"

// name returns the key and the extension of an object.
func name(s format.Shard) (key, ext string) {
	key, ext = naming.File(s.Key)
	if s.Says == whole {
		key = naming.WholeFile(s.Key)
	}
	return key, ext
}

// distinguish marks objects whose names differ only by extension, such as a.jpg and a.png. It
// rejects objects whose keys are still equal, such as a.b.jpg and a_b.jpg.
func distinguish(shards []format.Shard) error {
	first, marked := make(map[string]int, len(shards)), false
	for i, s := range shards {
		key, _ := naming.File(s.Key)
		if j, twice := first[key]; twice {
			shards[i].Says, shards[j].Says = whole, whole
			marked = true
		} else {
			first[key] = i
		}
	}
	if !marked {
		return nil
	}
	clear(first)
	for i, s := range shards {
		key, _ := name(s)
		if j, twice := first[key]; twice {
			other := shards[j].Key
			return fmt.Errorf("objects %s and %s would have the same key, %s, because a dot becomes an underscore: rename one of the objects, or exclude it with --match '!%s'", other, s.Key, key, s.Key)
		}
		first[key] = i
	}
	return nil
}
