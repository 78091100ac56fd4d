package tokens

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// dtype returns the token type in the options.
func (s *survey) dtype() (framing.DType, error) {
	d, err := framing.ParseDType(s.o.DType)
	if err == nil && d.String()[1] != 'u' && d.String()[1] != 'i' {
		err = fmt.Errorf("dtype %s: tokens must be integers", d)
	}
	return d, err
}

// agrees returns an error if a file's token type differs from the type in the options.
func (s *survey) agrees(d framing.DType) error {
	if s.o.DType == "" {
		return nil
	}
	want, err := s.dtype()
	if err == nil && want != d {
		err = fmt.Errorf("tokens have type %s, not %s", d, want)
	}
	return err
}

// byHead returns a function that examines files by their heads.
func (s *survey) byHead(look func(format.Object, []byte) (file, error)) func(context.Context, []format.Object, found) error {
	return func(ctx context.Context, objects []format.Object, take found) error {
		return format.EachHead(ctx, s.l, objects, func(o format.Object, head []byte) (bool, error) {
			f, err := look(o, head)
			return true, take(o, f, err)
		})
	}
}

// eachPair examines pairs one at a time, because it reads each .idx, which may be long, to its end.
func (s *survey) eachPair(ctx context.Context, objects []format.Object, take found) error {
	for _, o := range objects {
		f, err := s.megatron(ctx, o)
		if err := take(o, f, err); err != nil {
			return err
		}
	}
	return nil
}

// flat examines a file that contains only tokens, or a file of llm.c, whose header states the token
// type.
func (s *survey) flat(o format.Object, head []byte) (file, error) {
	stored := o.Key == format.Plain(o.Key) // uncompressed, so the stored size is the size of the contents
	if d, count, ok := llmc(head); ok {
		if stored && (o.Size-llmcHeader != count*int64(d.Size())) {
			return file{}, fmt.Errorf("%d bytes follow the header, but the %[3]d tokens of the header have %[2]d", o.Size-llmcHeader, count*int64(d.Size()), count)
		}
		return file{Object: o, dtype: d, start: llmcHeader, count: count}, s.agrees(d)
	}
	if s.o.DType == "" {
		return file{}, &format.ChoiceError{
			Cause: "object " + o.Key + " does not define the type of its tokens",
			Ways:  []format.Way{{Flag: "dtype", Value: "uint16", Effect: "reads two bytes per token"}, {Flag: "dtype", Value: "uint32", Effect: "reads four bytes per token"}},
		}
	}
	d, err := s.dtype()
	if err == nil && stored && o.Size%int64(d.Size()) != 0 {
		err = fmt.Errorf("its %d bytes are not a multiple of %d, the size of type %s", o.Size, d.Size(), d)
	}
	return file{Object: o, dtype: d, count: -1}, err
}

// llmcHeader is the length of the header in llm.c's files: 256 numbers of four bytes, of which
// three are used.
const llmcHeader = 1024

// llmc parses the header of an llm.c file: magic number, version and number of tokens.
func llmc(head []byte) (d framing.DType, count int64, ok bool) {
	if len(head) < llmcHeader {
		return d, 0, false
	}
	name := map[[2]uint32]string{{20240520, 1}: "<u2", {20240801, 7}: "<u4"}[[2]uint32{
		binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:]),
	}]
	d, err := framing.ParseDType(name)
	return d, int64(binary.LittleEndian.Uint32(head[8:])), err == nil
}

// npy examines a one-dimensional array.
func (s *survey) npy(o format.Object, head []byte) (file, error) {
	a, err := framing.ReadNPY(head)
	if err != nil {
		return file{}, err
	}
	if len(a.Shape) != 1 {
		return file{}, fmt.Errorf("array has %d dimensions: tokens require one", len(a.Shape))
	}
	if kind := a.DType.String()[1]; kind != 'u' && kind != 'i' {
		return file{}, fmt.Errorf("elements have type %s: tokens must be integers", a.DType)
	}
	if a.Shape[0] > maxTokens {
		return file{}, fmt.Errorf("the header of the array declares %d tokens, which is impossible", a.Shape[0])
	}
	return file{Object: o, dtype: a.DType, start: a.Start, count: int64(a.Shape[0])}, s.agrees(a.DType)
}

// maxTokens limits the number of tokens, so that their size in bytes cannot overflow.
const maxTokens = math.MaxInt64 / 16

// megatron examines a Megatron pair of .bin and .idx.
func (s *survey) megatron(ctx context.Context, o format.Object) (file, error) {
	idx := format.Stem(o.Key, ".bin") + ".idx"
	if o.Key != format.Plain(o.Key) {
		return file{}, fmt.Errorf("it is compressed, but %s has offsets in the uncompressed bytes", idx)
	}
	d, count, err := readIndex(ctx, s.l, idx)
	if err != nil {
		return file{}, fmt.Errorf("%s: %w", idx, err)
	}
	if o.Size != count*int64(d.Size()) {
		return file{}, fmt.Errorf("it has %d bytes, but the %[3]d tokens in %[4]s have %[2]d", o.Size, count*int64(d.Size()), count, idx)
	}
	return file{Object: o, dtype: d, count: count}, s.agrees(d)
}
