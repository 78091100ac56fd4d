package conditional

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzRangeHeader compares the range parser with the one of net/http.
func FuzzRangeHeader(f *testing.F) {
	for _, s := range []string{
		"bytes=0-0", "bytes=0-", "bytes=-1", "bytes=-0", "bytes=9-9", "bytes=10-", "bytes=5-4", "bytes=0-1,2-3", "bytes=", "bytes=-", "lines=0-1",
		"bytes=00-01", "bytes=0-99999999999999999999", "bytes=99999999999999999999-", "bytes= 1-2", "bytes=+1-2",
		"bytes=-77", "bytes=-7",
	} {
		f.Add(s, uint16(10))
	}
	f.Fuzz(func(t *testing.T, header string, n uint16) {
		size := int64(n)
		part, kind := parse(header, size)
		if kind == Part && (part.Start < 0 || part.Length < 1 || part.Start+part.Length > size) {
			t.Fatalf("%q of %d: got %+v, want a part of the body", header, size, part)
		}
		// If net/http parses one range, parse must return the same range. net/http accepts
		// additional spaces and signs, accepts a suffix of 0 bytes as a range, and limits
		// numbers to 2^63.
		if strings.ContainsAny(header, ", \t\r\n+") || strings.Contains(header, "--") || len(header) > 24 || size == 0 || !strings.HasPrefix(header, "bytes=") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Range"] = []string{header}
		w := httptest.NewRecorder()
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i>>8) ^ byte(i)
		}
		http.ServeContent(w, r, "x.bin", time.Time{}, bytes.NewReader(content))
		if w.Code != http.StatusPartialContent || w.Body.Len() == 0 {
			return
		}
		if kind != Part || !bytes.Equal(w.Body.Bytes(), content[part.Start:part.Start+part.Length]) {
			t.Fatalf("%q of %d: got %v %+v, want %s", header, size, kind, part, w.Header().Get("Content-Range"))
		}
	})
}
