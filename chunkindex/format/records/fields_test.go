package records_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/records"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func TestFieldsOfArrays(t *testing.T) {
	for constants, want := range map[string]format.Field{
		`{"dtype":"<u2","shape":[1025]}`:      {Name: "bin", Encoding: "raw", Type: "uint16", Shape: []uint64{1025}},
		`{"dtype":"|b1","shape":[]}`:          {Name: "bin", Encoding: "raw", Type: "bool"},
		`{"dtype":"<f2","shape":[2]}`:         {Name: "bin", Encoding: "raw", Type: "float16", Shape: []uint64{2}},
		`{"dtype":"<f4","shape":[3,32,32]}`:   {Name: "bin", Encoding: "raw", Type: "float", Shape: []uint64{3, 32, 32}},
		`{"dtype":"<f8","shape":[1]}`:         {Name: "bin", Encoding: "raw", Type: "double", Shape: []uint64{1}},
		`{"dtype":"|i1","shape":[2]}`:         {Name: "bin", Encoding: "raw", Type: "int8", Shape: []uint64{2}},
		`{"dtype":">f4","shape":[2]}`:         {Name: "bin", Encoding: "numpy:>f4", Shape: []uint64{2}},
		`{"dtype":"<c8","shape":[2]}`:         {Name: "bin", Encoding: "numpy:<c8", Shape: []uint64{2}},
		`{"dtype":"<f16","shape":[2]}`:        {Name: "bin", Encoding: "numpy:<f16", Shape: []uint64{2}},
		`{"dtype":"<M8[us]","shape":[2]}`:     {Name: "bin", Encoding: "numpy:<M8[us]", Shape: []uint64{2}},
		`{"dtype":"<U7","shape":[]}`:          {Name: "bin", Encoding: "numpy:<U7"},
		`{"dtype":"|u1","shape":[3,1024]}`:    {Name: "bin", Encoding: "raw", Type: "uint8", Shape: []uint64{3, 1024}},
		`{"dtype":"<i8","shape":[3073]}`:      {Name: "bin", Encoding: "raw", Type: "int64", Shape: []uint64{3073}},
		`{"dtype":"<u4","shape":[2,2,2,2,2]}`: {Name: "bin", Encoding: "raw", Type: "uint32", Shape: []uint64{2, 2, 2, 2, 2}},
	} {
		f, err := framing.Read("records", []byte(constants))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]format.Field{want}, format.FieldsOf(f)); d != "" {
			t.Errorf("%s: %s", constants, d)
		}
	}
}

// TestFieldsOfCIFAR compares the fields with the parts that a scan finds.
func TestFieldsOfCIFAR(t *testing.T) {
	o := scantest.Objects{"train.bin": cifar(2, 3)}
	d, err := records.Format().Survey(context.Background(), o, format.Options{})
	if err != nil || d == nil {
		t.Fatalf("got %v, %v, want a dataset", d, err)
	}
	f, err := framing.Read("records", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	fields := format.FieldsOf(f)
	want := []format.Field{
		{Name: "coarse", Encoding: "raw", Type: "uint8"},
		{Name: "cls", Encoding: "raw", Type: "uint8"},
		{Name: "bin", Encoding: "raw", Type: "uint8", Shape: []uint64{3, 32, 32}},
	}
	if d := cmp.Diff(want, fields); d != "" {
		t.Error(d)
	}
	found, err := scantest.Scan(context.Background(), records.Format(), format.Options{}, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range found["train.bin"][0].Parts {
		if p.Ext != fields[i].Name {
			t.Errorf("part %d: got %s, and the fields say %s", i, p.Ext, fields[i].Name)
		}
	}
}
