package client

import (
	"archive/tar"
	"bytes"
	"fmt"
	"hash/crc32"
)

const tarBlock = 512

// place returns the offset of each sample in the body. It checks each sample's CRC-32C, so that the
// manifest of another batch is rejected. Samples are contiguous: they begin at the first byte, or
// they follow a table or header and end at the last byte. In a tar whose samples are not tars
// themselves, each sample has its own header and padding, and a member with its class may follow.
func (b *Batch) place(samples []Sample) ([]int64, error) {
	starts := make([]int64, 0, len(samples))
	at := b.begin(samples)
	for i, s := range samples {
		left := b.data[at:]
		if s.Length < 0 || s.Length > int64(len(left)) {
			return nil, fmt.Errorf("sample %d of the manifest: %d bytes at offset %d are not within the %d bytes of the batch: %w", i, s.Length, at, len(b.data), ErrProtocol)
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

// classMember returns the size of the tar member at the start of p if it is the sample's class,
// otherwise 0.
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

// begin returns the offset of the first sample: 0, or the end of a table or header if the samples
// fill the rest of the body.
func (b *Batch) begin(samples []Sample) int64 {
	behind := int64(len(b.data))
	for _, s := range samples {
		if s.Length < 0 || s.Length > behind {
			return 0 // place reports the faulty sample
		}
		behind -= s.Length
	}
	if behind == 0 || len(samples) == 0 || samples[0].is(b.data[:samples[0].Length]) || !samples[0].is(b.data[behind:][:samples[0].Length]) {
		return 0
	}
	return behind
}

// is reports whether p has the CRC-32C of the sample.
func (s *Sample) is(p []byte) bool { return crc32.Checksum(p, castagnoli()) == uint32(s.CRC32C) }

// header returns the size of the tar header at the start of p, if the sample follows it as a single
// member.
func (b *Batch) header(p []byte, s Sample) (n int64, ok bool) {
	if b.ContentType != "application/x-tar" {
		return 0, false
	}
	in := bytes.NewReader(p)
	h, err := tar.NewReader(in).Next()
	if err != nil || h.Size != s.Length || int64(in.Len()) < s.Length {
		return 0, false
	}
	n = int64(len(p) - in.Len()) // tar.Reader reads nothing beyond the header
	return n, s.is(p[n : n+s.Length])
}
