package datasets

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
)

// Classes is the number of classes in both data sets.
const Classes = 10

// Set is a list of pictures as rows of numbers near 0, with the class of each.
type Set struct {
	Width  int // numbers per picture
	Pixels []float32
	Class  []uint8
}

// Len returns the number of pictures.
func (s *Set) Len() int { return len(s.Class) }

// Row returns one picture.
func (s *Set) Row(i int) []float32 { return s.Pixels[i*s.Width : (i+1)*s.Width] }

// Head returns the first n pictures.
func (s *Set) Head(n int) *Set {
	n = min(n, s.Len())
	return &Set{s.Width, s.Pixels[:n*s.Width], s.Class[:n]}
}

// Sorted returns the same pictures sorted by class. Within a class the order stays the same.
func (s *Set) Sorted() *Set {
	out := &Set{Width: s.Width}
	for class := range uint8(Classes) {
		for i, c := range s.Class {
			if c == class {
				out.Pixels = append(out.Pixels, s.Row(i)...)
				out.Class = append(out.Class, c)
			}
		}
	}
	return out
}

// MNIST returns 60,000 pictures of digits for training and 10,000 for testing, each with 28 x 28
// gray pixels.
func MNIST() (train, test *Set, err error) {
	names := []string{
		"data/train-images-idx3-ubyte", "data/train-labels-idx1-ubyte", "data/t10k-images-idx3-ubyte", "data/t10k-labels-idx1-ubyte",
	}
	f, err := mnistArchive().files(names...)
	if err != nil {
		return nil, nil, err
	}
	if train, err = idx(f[names[0]], f[names[1]]); err == nil {
		test, err = idx(f[names[2]], f[names[3]])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("MNIST: %w", err)
	}
	return train, test, nil
}

// idx parses the two files of a set: four magic bytes, the counts in big endian, then data bytes.
func idx(pictures, labels []byte) (*Set, error) {
	if len(pictures) < 16 || len(labels) < 8 {
		return nil, fmt.Errorf("files of %d and %d bytes are too short", len(pictures), len(labels))
	}
	n := int(binary.BigEndian.Uint32(pictures[4:]))
	width := int(binary.BigEndian.Uint32(pictures[8:]) * binary.BigEndian.Uint32(pictures[12:]))
	if len(pictures) != 16+n*width || len(labels) != 8+n {
		return nil, fmt.Errorf("got %d bytes of pictures and %d of labels for %d pictures of %d", len(pictures), len(labels), n, width)
	}
	s := &Set{Width: width, Pixels: make([]float32, n*width), Class: labels[8:]}
	for i, p := range pictures[16:] {
		s.Pixels[i] = (float32(p)/255 - 0.1307) / 0.3081 // mean and deviation over all pixels of the set
	}
	return s, nil
}

// CIFAR10 returns 50,000 photographs for training and 10,000 for testing, reduced to 16 x 16 pixels
// in three colors.
func CIFAR10() (train, test *Set, err error) {
	names := []string{"train_lables.json", "test_lables.json", "test_batch.png"}
	for i := range 5 {
		names = append(names, fmt.Sprintf("data_batch_%d.png", i+1))
	}
	f, err := cifarArchive().files(names...)
	if err != nil {
		return nil, nil, err
	}
	if train, err = sheets(f["train_lables.json"], f[names[3]], f[names[4]], f[names[5]], f[names[6]], f[names[7]]); err == nil {
		test, err = sheets(f["test_lables.json"], f["test_batch.png"])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("CIFAR-10: %w", err)
	}
	return train, test, nil
}

const side = 32

// sheets parses PNGs. Each row of a PNG is one photograph, pixel after pixel.
func sheets(labels []byte, pngs ...[]byte) (*Set, error) {
	var classes []int
	if err := json.Unmarshal(labels, &classes); err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	s := &Set{Width: 3 * side * side / 4, Class: make([]uint8, len(classes))}
	for i, c := range classes {
		if c < 0 || c >= Classes {
			return nil, fmt.Errorf("label %d is %d", i, c)
		}
		s.Class[i] = uint8(c)
	}
	for _, p := range pngs {
		sheet, err := png.Decode(bytes.NewReader(p))
		if err != nil {
			return nil, err
		}
		at, err := pixels(sheet)
		if err != nil {
			return nil, err
		}
		for y := range sheet.Bounds().Dy() {
			s.Pixels = append(s.Pixels, halve(func(i int) (r, g, b uint8) { return at(i, y) })...)
		}
	}
	if len(s.Pixels) != len(classes)*s.Width {
		return nil, fmt.Errorf("got %d photographs and %d labels", len(s.Pixels)/s.Width, len(classes))
	}
	return s, nil
}

// pixels returns a fast function that reads a pixel of a sheet. It supports only the PNG color
// models of these data sets.
func pixels(sheet image.Image) (func(x, y int) (r, g, b uint8), error) {
	if sheet.Bounds().Dx() != side*side {
		return nil, fmt.Errorf("the sheet is %d pixels wide, want %d", sheet.Bounds().Dx(), side*side)
	}
	switch m := sheet.(type) {
	case *image.NRGBA:
		return func(x, y int) (uint8, uint8, uint8) {
			p := m.Pix[y*m.Stride+x*4:]
			return p[0], p[1], p[2]
		}, nil
	case *image.RGBA:
		return func(x, y int) (uint8, uint8, uint8) {
			p := m.Pix[y*m.Stride+x*4:]
			return p[0], p[1], p[2]
		}, nil
	}
	return nil, fmt.Errorf("a sheet of type %T", sheet)
}

// halve averages each square of four pixels into one.
func halve(at func(i int) (r, g, b uint8)) []float32 {
	out := make([]float32, 0, 3*side*side/4)
	for y := 0; y < side; y += 2 {
		for x := 0; x < side; x += 2 {
			var sum [3]float32
			for _, i := range []int{y*side + x, y*side + x + 1, (y+1)*side + x, (y+1)*side + x + 1} {
				r, g, b := at(i)
				sum[0], sum[1], sum[2] = sum[0]+float32(r), sum[1]+float32(g), sum[2]+float32(b)
			}
			for _, v := range sum {
				out = append(out, (v/4/255-.473)/.252) // mean and deviation over all colors
			}
		}
	}
	return out
}
