package datasets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestIDX(t *testing.T) {
	pictures := binary.BigEndian.AppendUint32(nil, 0x803)
	for _, n := range []uint32{2, 1, 3} {
		pictures = binary.BigEndian.AppendUint32(pictures, n)
	}
	pictures = append(pictures, 0, 255, 0, 255, 255, 0)
	labels := append(make([]byte, 8), 7, 3)
	s, err := idx(pictures, labels)
	if err != nil {
		t.Fatal(err)
	}
	dark, bright := float32(-.1307/.3081), float32((1-.1307)/.3081)
	if got, want := s.Row(1), []float32{bright, bright, dark}; !near(got, want) || s.Class[1] != 3 {
		t.Errorf("picture 1: got %v of class %d, want %v of class 3", got, s.Class[1], want)
	}
	for name, cut := range map[string][]byte{"short": pictures[:10], "a pixel less": pictures[:len(pictures)-1]} {
		if _, err := idx(cut, labels); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-5 })
}

func TestSheets(t *testing.T) {
	sheet := image.NewNRGBA(image.Rect(0, 0, side*side, 2))
	for x := range side * side {
		sheet.Set(x, 0, color.NRGBA{255, 0, 0, 255})
		sheet.Set(x, 1, color.NRGBA{0, 0, uint8(255 * (x % 2)), 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, sheet); err != nil {
		t.Fatal(err)
	}
	s, err := sheets([]byte("[4, 9]"), b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	scaled := func(v float64) float32 { return float32((v - 0.473) / 0.252) }
	// The second photograph is striped: each pixel of the result is the mean of four.
	if got, want := s.Row(1)[:3], []float32{scaled(0), scaled(0), scaled(0.5)}; !near(got, want) || s.Class[1] != 9 {
		t.Errorf("photograph 1: got %v of class %d, want %v of class 9", got, s.Class[1], want)
	}
	if got, want := s.Row(0)[:3], []float32{scaled(1), scaled(0), scaled(0)}; !near(got, want) {
		t.Errorf("photograph 0: got %v, want %v", got, want)
	}
	for _, labels := range []string{"[1]", "[1, 10]", "{}"} {
		if _, err := sheets([]byte(labels), b.Bytes()); err == nil {
			t.Errorf("labels %s for two photographs: got no error", labels)
		}
	}
}

func TestSortedKeepsEachPictureWithItsClass(t *testing.T) {
	s := (&Set{Width: 1, Pixels: []float32{20, 0, 21, 10}, Class: []uint8{2, 0, 2, 1}}).Sorted()
	if !slices.Equal(s.Class, []uint8{0, 1, 2, 2}) || !slices.Equal(s.Pixels, []float32{0, 10, 20, 21}) {
		t.Errorf("got classes %v and pictures %v", s.Class, s.Pixels)
	}
}

// TestTexts reads small archives in place of the two packages.
func TestTexts(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if err := os.MkdirAll(directory(), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(a archive, files ...string) {
		if err := os.WriteFile(a.path(), tgz(t, files...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(brownArchive(), "README", "not a text", "ca01", "\n\n\tThe/at jury/nn said/vbd\n\n \n\tGo/vb ./.\n", "cb27", "One/cd\n", "ca44", "Two/cd words/nns")
	write(mailsArchive(), "data/file_list.json", "[]", "data/spam-1/1.json", `{"text": "To: you\n\nBuy now"}`, "data/spam-1/1.txt", "a b", "data/easy-ham-1/2.json", `{"text": "hello"}`)
	for name, c := range map[string]struct {
		open func() (*Texts, error)
		want Texts
	}{
		"Brown": {Brown, Texts{[]uint32{3, 2, 1, 2}, []uint8{0, 0, 1, 0}, 2}},
		"mails": {Mails, Texts{[]uint32{4, 1}, []uint8{0, 1}, 2}},
	} {
		if got, err := c.open(); err != nil || !slices.Equal(got.Words, c.want.Words) || !slices.Equal(got.Class, c.want.Class) || got.Classes != c.want.Classes {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, c.want)
		}
	}
	write(mailsArchive(), "data/spam-1/1.json", "{")
	if _, err := Mails(); err == nil {
		t.Error("a mail that is not JSON: got no error")
	}
}

// tgz returns an archive of files: names, each followed by the text.
func tgz(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for pair := range slices.Chunk(files, 2) {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + pair[0], Mode: 0o644, Size: int64(len(pair[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(pair[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFetchTakesOnlyWhatItsDigestSays(t *testing.T) {
	body := tgz(t, "data/x", "hello")
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/@some/pictures/-/pictures-1.0.0.tgz" {
			http.NotFound(w, r)
			return
		}
		w.Write(body)
	}))
	defer registry.Close()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", "") // no npm
	t.Setenv("NPM_CONFIG_REGISTRY", registry.URL+"/")
	sum := sha512.Sum512(body)
	good := archive{"@some/pictures", "1.0.0", base64.StdEncoding.EncodeToString(sum[:])}
	if _, err := good.files("data/x"); !errors.Is(err, ErrMissing) {
		t.Errorf("before it is fetched: got %v, want ErrMissing", err)
	}
	wrong := archive{"@some/pictures", "1.0.0", "AAAA"}
	if err := wrong.fetch(t.Context()); err == nil {
		t.Error("another digest: got no error")
	}
	if left, err := filepath.Glob(filepath.Join(directory(), "*")); err != nil || len(left) > 0 {
		t.Errorf("after that: got %v in the cache directory, want nothing (%v)", left, err)
	}
	if err := (archive{"others", "1.0.0", good.sha512}).fetch(t.Context()); err == nil {
		t.Error("a package that is not there: got no error")
	}
	if err := good.fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := good.files("data/x")
	if err != nil || string(f["data/x"]) != "hello" {
		t.Errorf("got %q (%v), want hello", f["data/x"], err)
	}
	if err := good.check(good.path()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(good.path(), body[:len(body)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if good.check(good.path()) == nil {
		t.Error("a byte less: the check passes")
	}
}
