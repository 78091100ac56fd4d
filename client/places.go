package client

import (
	"archive/tar"
	"bytes"
	"fmt"
	"hash/crc32"
)

const tarBlock = 512

// place finds where each sample of a manifest lies in the body, by the sample's CRC-32C, so that a manifest of another batch cannot slip
// in. Samples lie one after another: from the first byte on, or, in forms that begin with a table or a header, up to the last byte. In a
// tar of samples that are not stored as tars, each comes after a header of its own, and is padded. The class of a folder may follow it.
func (b *Batch) place(samples []Sample) ([]int64, error) {
	starts := make([]int64, 0, len(samples))
	at := b.begin(samples)
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
		if head > 0 {
			at += classMember(b.data[at:], s)
		}
	}
	return starts, nil
}

// classMember returns how long the member of a tar is with which p begins, if it is the class of the sample; else 0.
func classMember(p []byte, s Sample) int64 {
	in := bytes.NewReader(p)
	h, err := tar.NewReader(in).Next()
	if err != nil || h.Name != s.Key+".cls" {
		return 0
	}
	all := int64(len(p))
	size := (min(h.Size, all) + tarBlock - 1) &^ (tarBlock - 1)
	return min(all-int64(in.Len())+size, all)
}

// begin returns where the first sample begins: behind a table or a header, if all samples fit and the first of them is not at the first byte.
func (b *Batch) begin(samples []Sample) int64 {
	behind := int64(len(b.data))
	for _, s := range samples {
		if s.Length < 0 || s.Length > behind {
			return 0 // place says which sample it is
		}
		behind -= s.Length
	}
	if behind == 0 || len(samples) == 0 || samples[0].is(b.data[:samples[0].Length]) || !samples[0].is(b.data[behind:][:samples[0].Length]) {
		return 0
	}
	return behind
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
