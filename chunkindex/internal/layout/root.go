package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// Layout of the index object, the root of an index: magic, version, length of the metadata, number
// of segments, a row per segment, metadata.
const (
	rootMagic  = "MILLRACE"
	RootHeader = 24
	segmentRow = sha256.Size + 16
	MaxRoot    = RootHeader + segmentRow*MaxSegments + MaxMeta
	maxSegment = 1 << 42 // bytes
)

// Root is the index object. Its SHA-256 is the generation.
type Root struct {
	Meta     []byte // JSON, as EncodeMeta returns it
	Segments []SegmentRef
}

// SegmentRef names a segment.
type SegmentRef struct {
	Digest   [sha256.Size]byte // SHA-256 of the segment's header
	Size     int64             // length of the object
	Resident int64             // Header.Resident
}

// Name returns the last element of the segment's key.
func (s SegmentRef) Name() string { return hex.EncodeToString(s.Digest[:]) }

// Means of the number of shards in a segment, if they are small, and of the length of its blocks.
const (
	segmentShards = 64
	segmentBlocks = 16 << 20
)

// EndsSegment reports whether a segment ends after the shard with this key. For loose objects, the
// shard is the last one of its run. blocks is the length of the blocks of the shard or the run. The
// rule depends only on the data, so an index of the same shards has the same segments, whichever
// runs made it.
func EndsSegment(key string, blocks uint64) bool {
	return uint64(crc32.ChecksumIEEE([]byte(key))%segmentShards) <= blocks/(segmentBlocks/segmentShards)
}

// Encode returns the bytes of the root.
func (r *Root) Encode() ([]byte, error) {
	if len(r.Segments) > MaxSegments {
		return nil, fmt.Errorf("%d segments exceed the limits of an index: index the dataset in several parts, with --name and --match", len(r.Segments))
	}
	b := append(make([]byte, 0, r.size()), rootMagic...)
	b = binary.LittleEndian.AppendUint32(b, IndexVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Meta)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(r.Segments)))
	b, err := binary.Append(b, binary.LittleEndian, r.Segments)
	return append(b, r.Meta...), err
}

func (r *Root) size() int64 { return rootSize(len(r.Segments), len(r.Meta)) }

func rootSize(segments, meta int) int64 {
	return RootHeader + segmentRow*int64(segments) + int64(meta)
}

// Bytes returns the size of the whole index: the root and its segments.
func (r *Root) Bytes() int64 {
	n := r.size()
	for _, s := range r.Segments {
		n += s.Size
	}
	return n
}

// RootSize returns the length of the root that begins with these RootHeader bytes.
func RootSize(head []byte) (int64, error) {
	meta, segments := binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint64(head[16:])
	if string(head[:8]) != rootMagic || meta > MaxMeta || segments > MaxSegments {
		return 0, fmt.Errorf("root: %w", ErrMalformed)
	}
	return rootSize(int(segments), int(meta)), nil
}

// DecodeRoot verifies and decodes the root of a generation. It returns ErrOldVersion for an older
// version, and ErrVersion for an undamaged root of a newer one.
func DecodeRoot(b []byte, generation string) (*Root, error) {
	if len(b) < RootHeader || string(b[:8]) != rootMagic {
		return nil, errors.New("not an index")
	}
	version := binary.LittleEndian.Uint32(b[8:])
	if version < IndexVersion {
		return nil, fmt.Errorf("version %d: %w", version, ErrOldVersion)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != generation {
		return nil, errors.New("the root does not match the generation")
	}
	if version > IndexVersion {
		return nil, Newer("version", version)
	}
	if size, err := RootSize(b); err != nil || size != int64(len(b)) {
		return nil, fmt.Errorf("root: %w", ErrMalformed)
	}
	r := &Root{Segments: make([]SegmentRef, binary.LittleEndian.Uint64(b[16:]))}
	n, err := binary.Decode(b[RootHeader:], binary.LittleEndian, r.Segments)
	for i, s := range r.Segments {
		if err != nil || s.Size > maxSegment || s.Resident > s.Size || s.Resident < HeaderSize {
			return nil, fmt.Errorf("segment %d: %w", i, ErrMalformed)
		}
	}
	r.Meta = b[RootHeader+n:]
	return r, nil
}
