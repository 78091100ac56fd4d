package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

const (
	looks   = 16      // number of objects to inspect, largest first, because an object with many samples is larger than one that describes samples
	maxLook = 1 << 20 // bytes of an object to search for the end of its first value
)

// refuseCollections returns an error for a JSON object that holds many samples: an array, or
// several values.
func refuseCollections(ctx context.Context, l format.Listing, objects []format.Object) error {
	all := slices.DeleteFunc(slices.Clone(objects), func(o format.Object) bool { return format.Ext(o.Key) != ".json" })
	slices.SortStableFunc(all, func(a, b format.Object) int { return cmp.Compare(b.Size, a.Size) })
	return format.EachHead(ctx, l, all[:min(len(all), looks)], func(o format.Object, head []byte) (bool, error) {
		what, err := collection(ctx, l, o, head)
		if err != nil || what == "" {
			return true, err
		}
		return false, &format.ChoiceError{
			Cause: fmt.Sprintf("object %s is %s, each of which is likely a sample", o.Key, what),
			Ways: []format.Way{
				{Flag: "format", Value: framing.JSONL, Effect: "takes each value as one sample"},
				{Flag: "format", Value: framing.Files, Effect: "takes each object as one sample"},
			},
		}
	})
}

// collection describes an object that holds several values; "": it holds one.
func collection(ctx context.Context, l format.Listing, o format.Object, head []byte) (string, error) {
	if len(head) == format.HeadSize {
		var err error
		if head, err = l.First(ctx, o.Key, maxLook); err != nil {
			return "", err
		}
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(text, []byte("[")) {
		return "an array of JSON", nil
	}
	var first json.RawMessage
	in := json.NewDecoder(bytes.NewReader(text))
	if in.Decode(&first) != nil || !bytes.HasPrefix(first, []byte("{")) {
		return "", nil
	}
	if rest := bytes.TrimSpace(text[in.InputOffset():]); !bytes.HasPrefix(rest, []byte("{")) {
		return "", nil
	}
	return "several JSON objects", nil
}
