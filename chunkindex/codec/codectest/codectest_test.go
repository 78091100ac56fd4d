package codectest_test

import (
	"bytes"
	"compress/bzip2"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec/codectest"
)

// What the writer of bzip2 writes, the standard library reads.
func TestBzip2(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1_500_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "a byte": {7}, "zeros": make([]byte, 100_000), "noise": noise, "runs": bytes.Repeat([]byte("aaaabbbbbbbbbbcccc"), 1000),
		"text": bytes.Repeat([]byte("the quick brown fox\n"), 500), "few kinds": bytes.ReplaceAll(noise[:3000], []byte{1}, []byte{2, 2, 2, 2}),
	} {
		got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(codectest.Bzip2(data))))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(data))
		}
	}
}
