package shared

// Minimum lengths of a batch, and of one of its parts, for streaming. A smaller batch may still be
// in this processor's caches when its reader reads it.
const (
	streamedBatch = 4 << 20
	streamedPart  = 2 << 10
)

// Gather copies parts to a segment, one after another. On processors that support it, the parts of
// a large batch are streamed: non-temporal stores bypass the caches, like the Go runtime's copy of
// 1 MiB or more. An ordinary copy reads each line of the segment before writing it, and evicts a
// line of the cached chunks.
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
