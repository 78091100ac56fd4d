package records

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// cifar describes one of the two CIFAR datasets. Each record has one-byte labels before the pixels
// of an image.
type cifar struct {
	name   string
	labels []label
	train  string // prefix of the base names of training files; a number follows if it ends in "_"
	test   string // the same for test files
}

// label is a one-byte label. Its value is below the number of its classes.
type label struct {
	part    string
	classes byte
}

const pixels = 32 * 32 * 3

func (c cifar) size() int64 { return int64(len(c.labels)) + pixels }

func cifars() []cifar {
	return []cifar{
		{
			name: "CIFAR-10", labels: []label{{"cls", 10}},
			train: "data_batch_", test: "test_batch",
		},
		{
			name: "CIFAR-100", labels: []label{{"coarse", 20}, {"cls", 100}},
			train: "train", test: "test",
		},
	}
}

// cifar claims files with the names, sizes and labels of CIFAR. It claims the files of the training
// set, or of the test set if there are no training files. If no file has the right contents, cifar
// claims none.
func (s *survey) cifar(ctx context.Context) (*format.Dataset, error) {
	for _, c := range cifars() {
		files := s.matching(c.train)
		if len(files) == 0 {
			files = s.matching(c.test)
		}
		var wrong error
		right := 0
		for _, o := range files {
			fault, err := s.fault(ctx, c, o)
			switch {
			case err != nil:
				return nil, err
			case fault == "":
				right++
			case wrong == nil:
				wrong = fmt.Errorf("object %s is not a valid file of %s: %s", o.Key, c.name, fault)
			}
		}
		if wrong != nil && (right > 0 || s.o.Named) {
			return nil, wrong
		}
		if right > 0 {
			return s.cifarSet(c, files)
		}
	}
	return nil, nil
}

func (s *survey) cifarSet(c cifar, files []format.Object) (*format.Dataset, error) {
	dtype, err := framing.ParseDType("|u1")
	if err != nil {
		return nil, err
	}
	layout, err := framing.NewLayout(dtype, []uint64{uint64(c.size())})
	if err != nil {
		return nil, err
	}
	d := s.dataset(files, layout, func(sc *scanner) error { return sc.cifar(c) })
	d.Framing, d.Told = layout.Constants(c.fields()...), true
	for i := range d.Shards {
		d.Shards[i].Says = c.name // distinguishes these scans from scans with a given record size, whose samples have other parts
	}
	return d, nil
}

// matching returns the flat files whose base names consist of the prefix, a number if the prefix
// ends in "_", and .bin.
func (s *survey) matching(name string) []format.Object {
	var files []format.Object
	for _, o := range s.flats {
		number, ok := strings.CutPrefix(path.Base(format.Plain(o.Key)), name)
		number, bin := strings.CutSuffix(number, ".bin")
		if ok && bin && strings.Trim(number, "0123456789") == "" && (number != "") == strings.HasSuffix(name, "_") {
			files = append(files, o)
		}
	}
	return files
}

// fault describes how a file's size or first records differ from CIFAR's. It returns "" if they
// match.
func (s *survey) fault(ctx context.Context, c cifar, o format.Object) (string, error) {
	if o.Key == format.Plain(o.Key) && (o.Size == 0 || o.Size%c.size() != 0) {
		return fmt.Sprintf("its %d bytes are not a multiple of %d", o.Size, c.size()), nil
	}
	head, err := format.Head(ctx, s.l, o.Key)
	if err != nil {
		return "", err
	}
	if int64(len(head)) < c.size() {
		return fmt.Sprintf("it has no record of %d bytes", c.size()), nil
	}
	for at := 0; at+len(c.labels) <= len(head); at += int(c.size()) {
		if reason := c.wrong(head[at:], uint64(at)/uint64(c.size())); reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// wrong returns an error text for an invalid label of a record, or "" if all labels are valid.
func (c cifar) wrong(record []byte, n uint64) string {
	for i, l := range c.labels {
		if record[i] >= l.classes {
			return fmt.Sprintf("label %d of record %d is not one of %d classes", record[i], n, l.classes)
		}
	}
	return ""
}

// cifar reads labels and pixels to the end of the shard.
func (s *scanner) cifar(c cifar) error {
	for {
		labels, err := s.Peek(int64(len(c.labels)))
		if err != nil || len(labels) == 0 {
			return err
		}
		if len(labels) == len(c.labels) {
			if reason := c.wrong(labels, s.n); reason != "" {
				return s.Fail("%s", reason)
			}
		}
		if err := s.Begin(format.Numbered(s.stem, s.n)); err != nil {
			return err
		}
		s.n++
		s.Ahead(c.size())
		for _, l := range c.labels {
			if err := s.Part(l.part, 1); err != nil {
				return err
			}
		}
		if err := s.Part(framing.ArrayPart, pixels); err != nil {
			return err
		}
		if err := s.End(); err != nil {
			return err
		}
	}
}

// fields describes the parts of a CIFAR record.
func (c cifar) fields() []format.Field {
	var all []format.Field
	for _, l := range c.labels {
		all = append(all, format.Field{Name: l.part, Encoding: format.Raw, Type: "uint8"})
	}
	return append(all, format.Field{Name: framing.ArrayPart, Encoding: format.Raw, Type: "uint8", Shape: []uint64{3, 32, 32}})
}
