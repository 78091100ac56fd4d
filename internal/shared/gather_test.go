package shared

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestGather compares Gather with Go's own copy at all alignments, and checks the bytes around the
// copy.
func TestGather(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(draw.Uint32())
	}
	for turn := range 40 {
		var parts [][]byte
		var want []byte
		for len(want) < streamedBatch {
			n := 1 + draw.IntN(3*streamedPart)
			if draw.IntN(8) == 0 {
				n = 1 + draw.IntN(len(noise)/2)
			}
			at := draw.IntN(len(noise) - n)
			parts = append(parts, noise[at:at+n])
			want = append(want, noise[at:at+n]...)
		}
		if turn%2 == 1 { // so that the batch is small
			parts, want = parts[:1], want[:len(parts[0])]
		}
		before := turn % 67
		to := bytes.Repeat([]byte{0xa5}, before+len(want)+100)
		Gather(to[before:], parts)
		if !bytes.Equal(to[before:before+len(want)], want) {
			t.Fatalf("turn %d: %d parts of %d bytes differ", turn, len(parts), len(want))
		}
		after := to[before+len(want):]
		if n := bytes.Count(to[:before], []byte{0xa5}) + bytes.Count(after, []byte{0xa5}); n != before+len(after) {
			t.Fatalf("turn %d: %d bytes were written outside of %d bytes from %d on", turn, before+len(after)-n, len(want), before)
		}
	}
}

// TestStream copies all lengths with which a loop of 128 bytes can end, from the shortest on, at
// all alignments of both sides.
func TestStream(t *testing.T) {
	if !canStream {
		t.Log("this processor or port has no streaming copy")
		return
	}
	from := make([]byte, 1024)
	for i := range from {
		from[i] = byte(i*7 + i>>8)
	}
	to := make([]byte, 1024)
	for n := 256; n < 256+130; n++ {
		for a := range 33 {
			for b := range 33 {
				clear(to)
				stream(to[a:a+n], from[b:b+n])
				if !bytes.Equal(to[a:a+n], from[b:b+n]) || bytes.Count(to[:a], []byte{0}) != a || bytes.Count(to[a+n:], []byte{0}) != len(to)-a-n {
					t.Fatalf("%d bytes from %d to %d: they differ", n, b, a)
				}
			}
		}
	}
}

// BenchmarkGather writes batches of 256 samples of 110 KB to segments in turn, as for a reader that
// reads one segment.
func BenchmarkGather(b *testing.B) {
	const samples, length, segments = 256, 110_000, 3
	chunks := make([]byte, 512<<20)
	for i := range chunks {
		chunks[i] = byte(i >> 12)
	}
	var to [segments][]byte
	for i := range to {
		to[i] = bytes.Repeat([]byte{1}, samples*length)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for _, arm := range []struct {
		name string
		copy func(to []byte, parts [][]byte)
	}{{"streamed", Gather}, {"copied", func(to []byte, parts [][]byte) {
		for _, p := range parts {
			to = to[copy(to, p):]
		}
	}}} {
		b.Run(arm.name, func(b *testing.B) {
			b.SetBytes(samples * length)
			parts := make([][]byte, samples)
			for i := 0; b.Loop(); i++ {
				for j := range parts {
					at := draw.IntN(len(chunks) - length)
					parts[j] = chunks[at : at+length]
				}
				arm.copy(to[i%segments], parts)
			}
		})
	}
}
