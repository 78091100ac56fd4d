package framing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
)

func TestArray(t *testing.T) {
	const constants = `{"dtype":"<u2","shape":[2,3]}`
	f, err := readArray([]byte(constants))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(f.(array).Constants()); got != constants {
		t.Errorf("got %s, want %s", got, constants)
	}
	if before, after, err := f.Frame([]uint32{12, 12}); before != nil || after != nil || err != nil {
		t.Errorf("got %q, %q, %v, want nothing", before, after, err)
	}
	if _, _, err := f.Frame([]uint32{12, 11}); err == nil {
		t.Error("a sample of another size: got no error")
	}
	a, ok := f.(format.Array)
	if !ok {
		t.Fatal("framing is not a format.Array")
	}
	if dtype, shape := a.Item(); dtype != "<u2" || !cmp.Equal(shape, []uint64{2, 3}) {
		t.Errorf("got %s %d, want <u2 [2 3]", dtype, shape)
	}
	for _, raw := range []string{
		"", "null", "{}", "[]", `{"dtype":"<u2"}{}`, `{"dtype":"<u2","shape":[0]}`, `{"dtype":"<u2","shape":[4294967296,4294967296]}`,
		`{"dtype":"<u2","shape":[-1]}`, `{"dtype":"<u2","shape":[1],"x":1}`, `{"dtype":"|O8","shape":[1]}`,
		`{"dtype":"|u1","shape":[2],"parts":[{"name":"a","encoding":"raw","type":"uint8"}]}`,
		`{"dtype":"|u1","shape":[2],"parts":[{"name":"a","encoding":"raw","type":"int32"}]}`,
		`{"dtype":"|u1","shape":[2],"parts":[{"name":"a","encoding":"raw","type":"uint8","shape":[3]}]}`,
		`{"dtype":"|u1","shape":[2],"parts":[{"name":"a","encoding":"raw","type":"uint8","shape":[0]}]}`,
		`{"dtype":"|u1","shape":[8],"parts":[{"name":"a","encoding":"raw","type":"int32"},{"name":"a","encoding":"raw","type":"int32"}]}`,
		`{"dtype":"|u1","shape":[2],"parts":[{"name":"a","encoding":"jpeg"}]}`, `{"dtype":"|u1","shape":[2],"parts":[{"name":"","encoding":"raw","type":"int16"}]}`,
	} {
		if f, err := readArray([]byte(raw)); err == nil {
			t.Errorf("constants %q: got %v, want an error", raw, f)
		}
	}
}

// FuzzConstants reads arbitrary constants, because they come from an index that any program may
// have written.
func FuzzConstants(f *testing.F) {
	f.Add([]byte(`{"dtype":"<u2","shape":[2,3]}`))
	f.Add([]byte(`{"dtype":"<M8[ns]","shape":[]}`))
	f.Add([]byte(`{"dtype":"|u1","shape":[13],"parts":[{"name":"cls","encoding":"raw","type":"uint8"},{"name":"bin","encoding":"raw","type":"float","shape":[3]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		read, err := readArray(b)
		if err != nil {
			return
		}
		l := read.(array)
		next, err := readArray(l.Constants())
		again, ok := next.(array)
		if err != nil || !ok || !again.Equal(l.Layout) || l.Size() < 1 || l.Size() > format.MaxSample {
			t.Fatalf("got %v of %d bytes, %v, want %v", again, again.Size(), err, l)
		}
		for _, field := range l.Fields() {
			if field.Encoding == "" {
				t.Errorf("field %v has no encoding", field)
			}
		}
	})
}
