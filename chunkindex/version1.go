package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/millrace-data/millrace/chunkindex/codec"
)

// An index of version 1 has nine sections, and a footer with the digest of all of it. Its blocks have a checksum each, and its samples take
// the same number of bytes, whatever follows from a rule. It is read for ever, and no longer written.
const (
	footerMagic   = "ECARLLIM"
	footerSize    = 48
	sectionsV1    = secHash + 1
	headerSizeV1  = countsSize + sectionsV1*entrySize + 8
	chunkSizeV1   = 64
	extentSizeV1  = 24
	tableRowV1    = 12
	blockSumV1    = 4
	minSizeV1     = headerSizeV1 + footerSize
	leastShardRow = 13 // of any version
)

// checkFooter compares an index file with its own length and digest, and returns its generation.
func checkFooter(f io.ReaderAt, size int64) (string, error) {
	if size < minSizeV1 {
		return "", errors.New("not an index: too short")
	}
	foot := make([]byte, footerSize)
	if _, err := f.ReadAt(foot, size-footerSize); err != nil {
		return "", err
	}
	if string(foot[40:]) != footerMagic || binary.LittleEndian.Uint64(foot[32:]) != uint64(size) {
		return "", errors.New("truncated, or not an index")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size-footerSize)); err != nil {
		return "", err
	}
	if !bytes.Equal(sum.Sum(nil), foot[:32]) {
		return "", errors.New("digest is wrong")
	}
	return hex.EncodeToString(foot[:32]), nil
}

// readHeaderV1 checks a file of version 1 as a whole, and reads its header.
func readHeaderV1(f *os.File, size int64, generation string) (*header, error) {
	found, err := checkFooter(f, size)
	if err != nil {
		return nil, err
	}
	if found != generation {
		return nil, fmt.Errorf("it holds generation %.12s", found)
	}
	b := make([]byte, headerSizeV1)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:headerSizeV1-8], castagnoli()) != binary.LittleEndian.Uint32(b[headerSizeV1-8:]) {
		return nil, errors.New("header checksum is wrong")
	}
	if binary.LittleEndian.Uint32(b[12:]) != sectionsV1 || binary.LittleEndian.Uint32(b[headerSizeV1-4:]) != 0 {
		return nil, fmt.Errorf("header: %w", errMalformed)
	}
	h := &header{version: 1}
	if err := h.decodeCounts(b); err != nil {
		return nil, err
	}
	h.listed = h.samples
	return h, h.decodeSectionsV1(b[countsSize:], size)
}

// decodeSectionsV1 checks that the sections follow each other without a gap and that their lengths are those which the counts ask for.
func (h *header) decodeSectionsV1(b []byte, size int64) error {
	if err := h.decodeEntries(b, sectionsV1, size); err != nil {
		return err
	}
	n, s := int64(h.chunks), int64(h.samples)
	want := [sectionsV1]int64{
		secMeta: h.sections[secMeta].length, secShards: h.sections[secShards].length, secChunks: chunkSizeV1 * n,
		secExtents: extentSizeV1 * int64(h.extents), secTables: tableRowV1*s + blockSumV1*n, secBlocks: h.blockRow() * (n + 1),
		secNames: h.sections[secNames].length, secParts: h.sections[secParts].length, secHash: pageSize * int64(hashPages(h.samples)),
	}
	at := int64(headerSizeV1)
	for i, length := range want {
		if s := h.sections[i]; s.offset != at || s.length != length {
			return fmt.Errorf("section %d: %w", i+1, errMalformed)
		}
		at += length
	}
	if h.size() != size || h.sections[secMeta].length > maxMeta || want[secNames] < blockSumV1*n || want[secParts] < blockSumV1*n {
		return fmt.Errorf("sections: %w", errMalformed)
	}
	return nil
}

// checkBlocksV1 checks that the blocks of names and parts follow each other and fill their sections.
func (x *Index) checkBlocksV1() error {
	in := newSectionReader(x.file, x.head.sections[secBlocks])
	var last [2]uint64
	for i := range x.head.chunks + 1 {
		b, err := in.next(16)
		if err != nil {
			return err
		}
		at := [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		for k := range at {
			if (i == 0 && at[k] != 0) || (i > 0 && (at[k] < last[k]+blockSumV1 || at[k]-last[k] > maxTable)) {
				return fmt.Errorf("block offsets of chunk %d: %w", i, errMalformed)
			}
		}
		last = at
	}
	if last[0] != uint64(x.head.sections[secNames].length) || last[1] != uint64(x.head.sections[secParts].length) {
		return fmt.Errorf("block offsets: %w", errMalformed)
	}
	return nil
}

// decodeChunkV1 reads a record of the chunk table.
func decodeChunkV1(b []byte) (c chunkRow, err error) {
	length, skip := binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[56:])
	c = chunkRow{
		crc: binary.LittleEndian.Uint32(b[32:]), samples: binary.LittleEndian.Uint32(b[36:]), length: uint32(length),
		extents: binary.LittleEndian.Uint32(b[48:]), codec: codec.Codec(binary.LittleEndian.Uint32(b[52:])), skip: uint32(skip),
	}
	copy(c.digest[:], b)
	if length > math.MaxUint32 || skip > math.MaxUint32 || tableRowV1*int64(c.samples)+blockSumV1 > maxTable || c.codec.Described() {
		err = errMalformed // there is no place for parameters
	}
	return c, err
}

// decodeExtentV1 reads an extent, whose shard is at most so many.
func decodeExtentV1(b []byte, shards int) (Extent, error) {
	shard, off, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	if shard >= uint64(shards) || off > math.MaxInt64 || n > math.MaxInt64 {
		return Extent{}, errMalformed
	}
	return Extent{Shard: int(shard), Offset: int64(off), Length: int64(n)}, nil
}

// placeV1 returns where a chunk's block lies in its section.
func (x *Index) placeV1(ctx context.Context, sec, chunk int) (off, length int64, err error) {
	if sec == secTables {
		n := int64(x.first[chunk+1] - x.first[chunk])
		return tableRowV1*int64(x.first[chunk]) + blockSumV1*int64(chunk), tableRowV1*n + blockSumV1, nil
	}
	return x.placeOf(ctx, sec, chunk)
}

// unseal checks a block's CRC-32C, which it ends in, and takes it off.
func unseal(b []byte) ([]byte, error) {
	if len(b) < blockSumV1 {
		return nil, errMalformed
	}
	n := len(b) - blockSumV1
	if crc32.Checksum(b[:n], castagnoli()) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, errors.New("checksum is wrong")
	}
	return b[:n], nil
}
