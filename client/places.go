package client

import (
	"archive/tar"
	"bytes"
	"fmt"
	"hash/crc32"
)

const tarBlock = 512

// place finds where each sample of a manifest lies in the body, by the sample's CRC-32C, so that a manifest of another batch cannot slip
// in. Samples lie one after another: from the first byte on, but up to the last one in forms that begin with a table. In a tar of
// samples that are not stored as tars, each comes after a header of its own, and is padded.
func (b *Batch) place(samples []Sample) ([]int64, error) {
	starts := make([]int64, 0, len(samples))
	var at int64
	if b.ContentType == "application/vnd.mosaicml.mds" || b.ContentType == "application/vnd.litdata.chunk" {
		at = int64(len(b.data))
		for i, s := range samples {
			if s.Length < 0 || s.Length > at {
				return nil, fmt.Errorf("sample %d of the manifest: %d bytes, with %d before them, of %d: %w", i, s.Length, int64(len(b.data))-at, len(b.data), ErrProtocol)
			}
			at -= s.Length
		}
	}
	for i, s := range samples {
		left := b.data[at:]
		if s.Length < 0 || s.Length > int64(len(left)) {
			return nil, fmt.Errorf("sample %d of the manifest: %d bytes at %d of %d: %w", i, s.Length, at, len(b.data), ErrProtocol)
		}
		head, padding := int64(0), int64(0)
		if !s.is(left[:s.Length]) {
			var ok bool
			if head, ok = b.header(left, s); !ok {
				return nil, fmt.Errorf("sample %d (%q): %w", i, s.Key, ErrCRC)
			}
			padding = min(-s.Length&(tarBlock-1), int64(len(left))-head-s.Length)
		}
		starts = append(starts, at+head)
		at += head + s.Length + padding
	}
	return starts, nil
}

// is reports whether these are the sample's bytes.
func (s *Sample) is(p []byte) bool { return crc32.Checksum(p, castagnoli()) == uint32(s.CRC32C) }

// header returns how long the header is with which p begins, if a sample follows it as the one member of a tar.
func (b *Batch) header(p []byte, s Sample) (n int64, ok bool) {
	if b.ContentType != "application/x-tar" {
		return 0, false
	}
	in := bytes.NewReader(p)
	h, err := tar.NewReader(in).Next()
	if err != nil || h.Size != s.Length || int64(in.Len()) < s.Length {
		return 0, false
	}
	n = int64(len(p) - in.Len()) // a Reader of tar reads headers and nothing behind them
	return n, s.is(p[n : n+s.Length])
}
