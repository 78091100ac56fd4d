package records

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// cifar is one of the two data sets: labels of a byte each before the pixels of an image.
type cifar struct {
	name   string
	labels []label
	train  string // how the base names begin of the files of the training set, which are numbered if it ends in "_"
	test   string // and that of the test set
}

// label is a byte that is less than its number of classes.
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

// cifar takes files that have a name, a size and labels of CIFAR's: the training set's, or the test set's if it is alone.
// Where no file is as CIFAR's are, the names mean nothing.
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
				wrong = fmt.Errorf("object %s is not as files of %s are: %s", o.Key, c.name, fault)
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
		d.Shards[i].Says = c.name // the same records have other parts when their size was told
	}
	return d, nil
}

// matching returns the flat files whose base names begin so and end in .bin, with a number between if the name wants one.
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

// fault says what is wrong with a file by its size and its first records.
func (s *survey) fault(ctx context.Context, c cifar, o format.Object) (string, error) {
	if o.Key == format.Plain(o.Key) && (o.Size == 0 || o.Size%c.size() != 0) {
		return fmt.Sprintf("its %d bytes are no multiple of %d", o.Size, c.size()), nil
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

// wrong says which label of a record is none.
func (c cifar) wrong(record []byte, n uint64) string {
	for i, l := range c.labels {
		if record[i] >= l.classes {
			return fmt.Sprintf("label %d of record %d is not one of %d classes", record[i], n, l.classes)
		}
	}
	return ""
}

// cifar reads labels and pixels to the shard's end.
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
		if err := s.begin(c.size()); err != nil {
			return err
		}
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

// fields says what the parts of a record of CIFAR hold.
func (c cifar) fields() []format.Field {
	var all []format.Field
	for _, l := range c.labels {
		all = append(all, format.Field{Name: l.part, Encoding: format.Raw, Type: "uint8"})
	}
	return append(all, format.Field{Name: framing.ArrayPart, Encoding: format.Raw, Type: "uint8", Shape: []uint64{3, 32, 32}})
}
