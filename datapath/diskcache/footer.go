package diskcache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
)

// Key identifies a chunk: its content, and the source that vouches for it.
type Key struct {
	Source [32]byte // zero if chunks are proved by their SHA-256; otherwise identifies the dataset that claims the digest
	Digest [32]byte // SHA-256
	Length int64
	CRC32C uint32
}

// A chunk file is the chunk's bytes and this footer, little-endian:
//
//	 0  magic "MLRCHUNK"
//	 8  u32 version
//	12  u32 CRC-32C of the chunk
//	16  source, 32 bytes
//	48  digest, 32 bytes
//	80  u64 length of the chunk
//	88  u32 zero
//	92  u32 CRC-32C of the 92 bytes before
const (
	footerSize = 96
	version    = 1
	magic      = "MLRCHUNK"
)

var errFooter = errors.New("bad footer")

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // the library caches the table

// name identifies a key in memory and on disk: the first half of the SHA-256 of its footer.
type name [16]byte

func (k Key) name() (n name) {
	sum := sha256.Sum256(k.appendFooter(make([]byte, 0, footerSize)))
	return name(sum[:len(n)])
}

// file returns the path of the chunk's file below the cache's directory.
func (n name) file() string {
	text := hex.EncodeToString(n[:])
	return path.Join(chunkDir, text[:2], text)
}

// parseName reads the name of a file in the subdirectory sub.
func parseName(sub, file string) (n name, ok bool) {
	b, err := hex.DecodeString(file)
	if err != nil || len(b) != len(n) || hex.EncodeToString(b) != file || file[:2] != sub {
		return name{}, false
	}
	return name(b), true
}

func (k Key) appendFooter(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, k.CRC32C)
	b = append(b, k.Source[:]...)
	b = append(b, k.Digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.Length))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli()))
}

// parseFooter returns the key in a footer.
func parseFooter(b []byte) (Key, error) {
	if len(b) != footerSize || string(b[:8]) != magic {
		return Key{}, fmt.Errorf("%w: not a chunk file", errFooter)
	}
	if crc32.Checksum(b[:92], castagnoli()) != binary.LittleEndian.Uint32(b[92:]) {
		return Key{}, fmt.Errorf("%w: its checksum does not match", errFooter)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return Key{}, fmt.Errorf("%w: version %d instead of %d", errFooter, v, version)
	}
	k := Key{
		Source: [32]byte(b[16:48]), Digest: [32]byte(b[48:80]),
		Length: int64(binary.LittleEndian.Uint64(b[80:])), CRC32C: binary.LittleEndian.Uint32(b[12:]),
	}
	if !bytes.Equal(k.appendFooter(nil), b) || k.Length < 0 {
		return Key{}, fmt.Errorf("%w: malformed", errFooter)
	}
	return k, nil
}
