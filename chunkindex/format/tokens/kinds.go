package tokens

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// dtype is what the user says of tokens.
func (s *survey) dtype() (framing.DType, error) {
	d, err := framing.ParseDType(s.o.DType)
	if err == nil && d.String()[1] != 'u' && d.String()[1] != 'i' {
		err = fmt.Errorf("dtype %s: tokens are whole numbers", d)
	}
	return d, err
}

// agrees refuses a file that says another type of itself than the user does.
func (s *survey) agrees(d framing.DType) error {
	if s.o.DType == "" {
		return nil
	}
	want, err := s.dtype()
	if err == nil && want != d {
		err = fmt.Errorf("tokens are of %s, not %s", d, want)
	}
	return err
}

// byHead looks at files whose heads say what they are.
func (s *survey) byHead(look func(format.Object, []byte) (file, error)) func(context.Context, []format.Object, found) error {
	return func(ctx context.Context, objects []format.Object, take found) error {
		return format.EachHead(ctx, s.l, objects, func(o format.Object, head []byte) (bool, error) {
			f, err := look(o, head)
			return true, take(o, f, err)
		})
	}
}

// eachPair looks at pairs one after another: an .idx is read to its end, and may be long.
func (s *survey) eachPair(ctx context.Context, objects []format.Object, take found) error {
	for _, o := range objects {
		f, err := s.megatron(ctx, o)
		if err := take(o, f, err); err != nil {
			return err
		}
	}
	return nil
}

// flat looks at a file of tokens and, if it is one of llm.c, a header that says of which type.
func (s *survey) flat(o format.Object, head []byte) (file, error) {
	stored := o.Key == format.Plain(o.Key) // as it is: its size is that of its bytes
	if d, count, ok := llmc(head); ok {
		if stored && (o.Size-llmcHeader != count*int64(d.Size())) {
			return file{}, fmt.Errorf("%d bytes follow the header, not the %d of the %d tokens that it says there are", o.Size-llmcHeader, count*int64(d.Size()), count)
		}
		return file{Object: o, dtype: d, start: llmcHeader, count: count}, s.agrees(d)
	}
	if s.o.DType == "" {
		return file{}, &format.ChoiceError{
			Cause: "object " + o.Key + " does not say of which type its tokens are",
			Ways:  []format.Way{{Flag: "dtype", Value: "uint16", Effect: "takes each two bytes for a token"}, {Flag: "dtype", Value: "uint32", Effect: "takes each four bytes for a token"}},
		}
	}
	d, err := s.dtype()
	if err == nil && stored && o.Size%int64(d.Size()) != 0 {
		err = fmt.Errorf("%d bytes are no multiple of the %d of %s", o.Size, d.Size(), d)
	}
	return file{Object: o, dtype: d, count: -1}, err
}

// llmcHeader is what stands before the tokens in files of llm.c: 256 numbers of four bytes, of which three mean something.
const llmcHeader = 1024

// llmc reads the header of a file of llm.c: magic, version, and how many tokens follow.
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

// npy looks at an array of one dimension.
func (s *survey) npy(o format.Object, head []byte) (file, error) {
	a, err := framing.ReadNPY(head)
	if err != nil {
		return file{}, err
	}
	if len(a.Shape) != 1 {
		return file{}, fmt.Errorf("array has %d dimensions: tokens lie along one", len(a.Shape))
	}
	if kind := a.DType.String()[1]; kind != 'u' && kind != 'i' {
		return file{}, fmt.Errorf("elements are of %s: tokens are whole numbers", a.DType)
	}
	if a.Shape[0] > maxTokens {
		return file{}, fmt.Errorf("array says that it has %d tokens", a.Shape[0])
	}
	return file{Object: o, dtype: a.DType, start: a.Start, count: int64(a.Shape[0])}, s.agrees(a.DType)
}

// maxTokens is more than a file can hold, so that their bytes are a number.
const maxTokens = math.MaxInt64 / 16

// megatron looks at a pair.
func (s *survey) megatron(ctx context.Context, o format.Object) (file, error) {
	idx := format.Stem(o.Key, ".bin") + ".idx"
	if o.Key != format.Plain(o.Key) {
		return file{}, fmt.Errorf("it is compressed, and %s says where its bytes lie when it is not", idx)
	}
	d, count, err := readIndex(ctx, s.l, idx)
	if err != nil {
		return file{}, fmt.Errorf("%s: %w", idx, err)
	}
	if o.Size != count*int64(d.Size()) {
		return file{}, fmt.Errorf("%d bytes are not the %d of the %d tokens that %s says there are", o.Size, count*int64(d.Size()), count, idx)
	}
	return file{Object: o, dtype: d, count: count}, s.agrees(d)
}
