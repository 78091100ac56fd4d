package shared

// Bytes of a batch, and of one of its parts, from which on they are streamed. A smaller batch may still be in this processor's caches
// when its reader looks at it.
const (
	streamedBatch = 4 << 20
	streamedPart  = 2 << 10
)

// Gather copies parts to a segment, one after the other. It streams those of a large batch: where the processor can, their bytes go past
// its caches ("non-temporal" stores, as the Go runtime has them for a copy of 1 MiB or more). Else each line of the segment is read
// before it is written, and takes the place of a line of the cached chunks.
func Gather(to []byte, parts [][]byte) {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	for _, p := range parts {
		if canStream && length >= streamedBatch && len(p) >= streamedPart {
			stream(to[:len(p)], p)
		} else {
			copy(to, p)
		}
		to = to[len(p):]
	}
}
